# A broker for this machine, whose clients use localhost:9092 (BuildKit, which Docker has had since 23, builds it):
#   docker build -t sordini .
#   docker run -p 9092:9092 -v sordini:/var/lib/sordini sordini
#
# Clients connect to the advertised address: here localhost, because that is where the published port is. The line
# `sordini is ready` names it. For clients elsewhere, or another port, set it:
#   docker run -p 9092:9092 -e KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker.example.org:9092 sordini
#
# It writes only its data and needs no privilege (docker-compose.yml runs it so):
#   docker run --read-only --cap-drop ALL --security-opt no-new-privileges -p 9092:9092 -v sordini:/var/lib/sordini sordini
#
# The target `pipeline` is an image with Java, Spark and `sordini pipeline` (about 1.5 GB), without the broker's defaults:
#   docker build --target pipeline -t sordini-pipeline .
#   docker run -v "$PWD/jobs:/jobs:ro" -v tables:/tables sordini-pipeline load /jobs/views.yaml
#
# Any key of server.properties can be set in the environment, as KAFKA_ or SORDINI_ and the key in capitals:
#   docker run -p 9092:9092 -e KAFKA_NUM_PARTITIONS=3 sordini
# Commands in the image, the health check included, connect to SORDINI_BOOTSTRAP.
#
# Licences: Sordini is under Apache-2.0. Among its libraries crc32c is under the LGPL-2.1-or-later; it is installed
# unchanged, as a package of its own that can be replaced (pip install crc32c==...). Its text, and those of the
# others, are in their .dist-info folders.

# Its Python is built with profile-guided optimisation: without, a broker needs 6 to 19 % more CPU time.
# The only place that names this image. `python3 scripts/base_images.py` compares it with the tag; --write updates it.
ARG PYTHON_IMAGE=python:3.11-slim@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff

# The libraries come before the sources, so that a change of these fetches nothing again.
# Nothing is fetched but what the locks name, each file with its hash (`make lock` writes them).
FROM ${PYTHON_IMAGE} AS libraries
WORKDIR /src
COPY requirements requirements
RUN python -m pip wheel --no-cache-dir --require-hashes --only-binary :all: --wheel-dir /wheels --requirement requirements/broker.lock \
    && python -m pip install --no-cache-dir --require-hashes --only-binary :all: --target /build-tools --requirement requirements/build.lock

# PySpark is published as its sources only.
FROM libraries AS libraries-pipeline
RUN PYTHONPATH=/build-tools python -m pip wheel --no-cache-dir --require-hashes --no-build-isolation --wheel-dir /wheels-pipeline --requirement requirements/pipeline.lock

FROM libraries AS build
COPY pyproject.toml README.md LICENSE __init__.py __main__.py py.typed ./
COPY scripts/package_metadata.py scripts/
COPY admin admin
COPY broker broker
COPY cli cli
COPY client client
COPY config config
COPY console console
COPY coordination_store coordination_store
COPY doctor doctor
COPY mirror mirror
COPY packs packs
COPY protocol protocol
COPY registry registry
COPY replication replication
COPY schemas schemas
COPY storage storage
COPY system system
COPY testing testing
RUN PYTHONPATH=/build-tools python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM libraries-pipeline AS build-pipeline
COPY --from=build /src /src
COPY pipeline pipeline
RUN PYTHONPATH=/build-tools python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels-pipeline .

FROM ${PYTHON_IMAGE} AS pipeline
LABEL org.opencontainers.image.title="Sordini pipeline" \
      org.opencontainers.image.description="From topics of the Kafka protocol to tables, on Spark" \
      org.opencontainers.image.licenses="Apache-2.0 AND LGPL-2.1-or-later"
RUN apt-get update \
    && apt-get install -y --no-install-recommends default-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home --shell /usr/sbin/nologin sordini \
    && install -d -o sordini -g sordini -m 0750 /tables
RUN --mount=type=bind,from=build-pipeline,source=/wheels-pipeline,target=/wheels-pipeline \
    python -m pip install --no-cache-dir --no-index --find-links /wheels-pipeline 'sordini[spark]'
# The image's user may not write beside the job files, which belong to the user who mounts them.
ENV SORDINI_PIPELINE_STATE=/tables/.sordini
USER 10001
WORKDIR /tables
VOLUME /tables
STOPSIGNAL SIGTERM
ENTRYPOINT ["sordini", "pipeline"]
CMD ["--help"]

FROM ${PYTHON_IMAGE} AS broker
LABEL org.opencontainers.image.title="Sordini" \
      org.opencontainers.image.description="A standalone broker that speaks the Kafka protocol" \
      org.opencontainers.image.licenses="Apache-2.0 AND LGPL-2.1-or-later"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sordini \
    && install -d -o sordini -g sordini -m 0750 /var/lib/sordini
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-index --find-links /wheels sordini
ENV KAFKA_LOG_DIRS=/var/lib/sordini \
    SORDINI_ADVERTISED_HOST=localhost \
    SORDINI_BOOTSTRAP=127.0.0.1:9092
USER 10001
WORKDIR /var/lib/sordini
VOLUME /var/lib/sordini
EXPOSE 9092
# SIGTERM stops cleanly within sordini.shutdown.deadline.ms: give `docker stop` more time than that (-t 40).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["sordini", "ping", "--serving", "--timeout", "4"]
ENTRYPOINT ["sordini"]
CMD ["serve"]
