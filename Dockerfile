# One image for workers and the gateway: `perdure worker`, `perdure serve`. It has every extra that a
# deployment may need, and nothing to test with. Whether it is well is asked from outside
# (docker-compose.yml): the two answer at different ports.
FROM python:3.11.15-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source

# First what changes seldom.
COPY requirements-runtime.lock requirements-build.lock ./
RUN python -m venv /opt/perdure \
  && /opt/perdure/bin/pip install --require-hashes --requirement requirements-runtime.lock \
  && pip install --require-hashes --requirement requirements-build.lock

COPY . .
# Nothing is fetched here: what builds the wheel is locked too.
RUN pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
  && /opt/perdure/bin/pip install --no-deps --no-index /wheels/perdure-*.whl

FROM python:3.11.15-slim-bookworm
# Volumes begin with what is here, its owner included.
RUN groupadd --gid 10001 perdure \
  && useradd --uid 10001 --gid perdure --home-dir /var/lib/perdure --no-create-home perdure \
  && install --directory --owner perdure --group perdure --mode 0700 \
    /var/lib/perdure /var/lib/perdure/storage /var/lib/perdure/keys
COPY --from=build /opt/perdure /opt/perdure
ENV PATH=/opt/perdure/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /var/lib/perdure
USER 10001:10001
ENTRYPOINT ["perdure"]
CMD ["worker"]
