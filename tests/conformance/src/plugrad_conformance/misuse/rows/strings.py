"""Valid calls of string kernels."""

import numpy as np

from .. import call, strings

WORDS = strings(b"a b", b"", b"b,c a", b"c")

CALLS = {
    "StringToHashBucketFast": call(WORDS, num_buckets=7),
    "StaticRegexReplace": call(
        WORDS, pattern="([a-b])", rewrite=r"<\g<1>>", replace_global=True
    ),
    "StringSplit": call(WORDS, np.array(b" ,", object), skip_empty=True),
    "StringNGrams": call(
        WORDS,
        np.array([0, 3, 3, 4], np.int32),
        separator=b"-",
        ngram_widths=(2, 3),
        left_pad=b"<",
        right_pad=b">",
        pad_width=1,
        preserve_short_sequences=True,
    ),
}
