"""A decoder of four layers that is planned in a second."""

from meshwright.capture.decoder import Decoder

DECODER = Decoder(layers=4, hidden=1024, heads=8, vocabulary=32_000, ffn=4096, gated=True)
