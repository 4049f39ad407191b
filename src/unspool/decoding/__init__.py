"""From what a model computes to tokens and text: sampling, greedy decoding, beam search; without torch."""
