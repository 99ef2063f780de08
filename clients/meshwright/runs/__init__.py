"""Training runs as rows of a table: model, devices, degrees; each as a request for its stated plan.

table      files as people write them, and the cells of a row
devices    devices by the names that tables give them
models     the dimensions of a row's model
strategy   the degrees of a row, and what stands in for what it does not say
request    the request that prices a row
"""

from meshwright.runs.request import request_of
from meshwright.runs.table import NotPredictable, Row, read

__all__ = ["NotPredictable", "Row", "read", "request_of"]
