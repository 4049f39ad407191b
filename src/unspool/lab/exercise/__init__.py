"""The exercise: a reader's own RNN, compared with the reference and with typical mistakes."""
