"""The names of all settings, and what others call them: without the package that checks their values."""

from __future__ import annotations

#: Every setting, as `catalogue.SETTINGS` has them; messages are spelled where that cannot be imported.
NAMES = frozenset(
    """
    files validation test split_seed tokenizer vocab_size split cell hidden layers residual skip init forget_bias
    engine dropout variational_dropout recurrent_dropout weight_dropout zoneout gate_penalty deep_supervision
    embedding pretrained_embeddings freeze_embeddings embedding_dropout tied backbone epochs steps minutes patience
    seed batch_size bptt grad_accum loss_reduction learning_rule teacher_forcing teacher_forcing_end baselines
    device optimizer lr momentum betas weight_decay schedule warmup min_lr_ratio lr_decay lr_decay_after
    lr_decay_patience clip average ema_decay swa_start activation_penalty temporal_penalty eval_every eval_limit
    checkpoint_every save_total_limit max_length text_column lowercase id_column time_column features label_column
    bidirectional pooling members input_window subwords embedding_std word_dropout label_smoothing mixup cnn_layers
    label_separator target augment_smiles scheme char_hidden crf time_delay source_column target_column attention
    beam_size series_column future_covariates past_covariates horizon lookback season quantiles relative_to
    """.split()  # noqa: SIM905 - a literal would take a screen
)
#: Other names for settings, which people know from elsewhere; they are suggested, not accepted.
SYNONYMS = {
    **{"rate": "lr", "learning_rate": "lr", "find_rate": "lr_find", "batch": "batch_size", "bs": "batch_size"},
    **{"window": "bptt", "seq_len": "bptt", "truncate": "bptt", "optimiser": "optimizer", "optim": "optimizer"},
    **{"tokens": "tokenizer", "vocabulary": "vocab_size", "tie": "tied", "tie_weights": "tied"},
    **{"one_way": "no_bidirectional", "both_ways": "bidirectional", "initial": "init", "force": "overwrite"},
    **{"evaluate_every": "eval_every", "final": "min_lr_ratio", "keep": "save_total_limit"},
    **{"forcing": "teacher_forcing", "accumulate": "grad_accum", "hidden_size": "hidden", "num_layers": "layers"},
    **{"look_back": "lookback", "targets": "target", "learn": "learning_rule", "reader": "backbone"},
    **{"longest": "max_length", "beam": "beam_size", "enumerate": "augment_smiles"},
}
