# The service, with its embedded store or on PostgreSQL.
#   docker build --build-arg VERSION=1.2.3 --build-arg REVISION=$(git rev-parse HEAD) -t meshwright .
# `make image-check` builds and runs it without a Docker daemon (docs/how-to/operations.md).
ARG BASE=python:3.11-slim

FROM ${BASE} AS wheels
ARG VERSION=
WORKDIR /source
COPY . .
RUN export ${VERSION:+SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION} \
    && python3 -m venv /tools \
    && /tools/bin/pip wheel --no-cache-dir --wheel-dir /wheels --constraint constraints.txt \
        ./clients '.[postgresql,dask]'

FROM ${BASE} AS kernels
ENV PATH=/opt/meshwright/bin:$PATH
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    python3 -m venv /opt/meshwright \
    && pip install --no-cache-dir --no-compile --no-index --find-links /wheels \
        'meshwright-server[postgresql,dask]'
# for any processor of the architecture; a start copies them to NUMBA_CACHE_DIR
ENV NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=
RUN --mount=type=bind,from=wheels,source=/source/deploy/image,target=/image \
    NUMBA_CACHE_DIR=/opt/meshwright/kernels sh /image/compile-kernels.sh \
    && python3 -m compileall -q /opt/meshwright/lib

FROM ${BASE}
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="Meshwright" \
    org.opencontainers.image.description="A planning service for distributed training" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="python:3.11-slim"
RUN useradd --system --uid 10001 --user-group --home-dir /nonexistent meshwright \
    && install --directory --owner=meshwright --mode=0700 /data
COPY --from=kernels /opt/meshwright /opt/meshwright
COPY deploy/certificates.sh deploy/image/entrypoint.sh /opt/meshwright/bin/
ENV PATH=/opt/meshwright/bin:$PATH \
    MALLOC_ARENA_MAX=2 \
    NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=/tmp/meshwright-kernels \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    MESHWRIGHT_HOST=0.0.0.0 MESHWRIGHT_DATA_DIR=/data
# a number, so that Kubernetes can tell that it is not root
USER 10001:10001
WORKDIR /data
EXPOSE 8780
VOLUME /data
ENTRYPOINT ["/bin/sh", "/opt/meshwright/bin/entrypoint.sh"]
# of the port and the certificate in the environment, not of the options of a command
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["meshwright-server", "health"]
CMD ["meshwright-server", "serve"]
