"""Meshwright: plans for distributed training. See `meshwright.schema` and `meshwright.client`."""
