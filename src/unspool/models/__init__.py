"""Torch models for the tasks: embedding, backbone of recurrent layers, head."""
