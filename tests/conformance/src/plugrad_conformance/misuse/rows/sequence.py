"""Valid calls of LSTM, GRU and their gradients."""

from .. import call, floats

STATES = floats(3, 2, 2)

CALLS = {
    "LSTM": call(
        floats(3, 2, 8), floats(2, 2), floats(2, 2), floats(2, 8), reverse=True
    ),
    "LSTMGrad": call(
        STATES,
        STATES,
        floats(3, 2, 8),
        STATES,
        floats(2, 8),
        undefined=r"values 1e\+30",  # the order of summation is not defined
        reverse=True,
    ),
    "GRU": call(floats(3, 2, 6), floats(2, 2), floats(2, 6), floats(6), reverse=False),
    "GRUGrad": call(
        STATES,
        floats(3, 2, 6),
        floats(3, 2, 6),
        STATES,
        floats(2, 6),
        undefined=r"values 1e\+30",  # the order of summation is not defined
        reverse=False,
    ),
}
