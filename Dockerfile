# The service, with its embedded store or on PostgreSQL. Build: docker build -t meshwright .
FROM python:3.11-slim
WORKDIR /meshwright
COPY constraints.txt pyproject.toml hatch_build.py README.md LICENSE ./
COPY examples/graphs examples/graphs
COPY clients clients
COPY costmodel costmodel
COPY solver solver
COPY service service
COPY deploy deploy
# the image has no git: docker build --build-arg VERSION=0.2.0 -t meshwright .
ARG VERSION
RUN SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION pip install --no-cache-dir --constraint constraints.txt ./clients '.[postgresql,dask]' \
    && useradd --system --home /data --create-home meshwright \
    && chmod 700 /data
USER meshwright
# beyond loopback, so it starts once there is a key: meshwright-server keys create (docs/service.md)
ENV MESHWRIGHT_HOST=0.0.0.0 MESHWRIGHT_DATA_DIR=/data
EXPOSE 8780
VOLUME /data
# of the port and the certificate in the environment; options of another command it does not know
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["meshwright-server", "health"]
CMD ["meshwright-server", "serve"]
