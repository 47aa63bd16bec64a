"""How the golden cases reach the ops of ``strings``."""

import plugrad as pg


def ngrams(
    data,
    dataSplits,
    separator,
    nGramWidths,
    leftPad,
    rightPad,
    padWidth,
    preserveShortSequences,
):
    return pg.strings.ngrams(
        data,
        dataSplits,
        separator=separator,
        ngram_widths=nGramWidths,
        left_pad=leftPad,
        right_pad=rightPad,
        pad_width=padWidth,
        preserve_short_sequences=preserveShortSequences,
    )


KERNELS = {
    "StaticRegexReplace": lambda x, pattern, rewrite, replaceGlobal: (
        pg.strings.regex_replace(x, pattern, rewrite, replace_global=replaceGlobal)
    ),
    "StringNGrams": ngrams,
    "StringSplit": lambda input, delimiter, skipEmpty: pg.strings.split(
        input, delimiter, skip_empty=skipEmpty
    ),
    "StringToHashBucketFast": lambda input, numBuckets: pg.strings.to_hash_bucket_fast(
        input, numBuckets
    ),
}

OPS = {
    "stringNGrams": ngrams,
    "stringToHashBucketFast": pg.strings.to_hash_bucket_fast,
}
