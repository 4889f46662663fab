# The dashboard for others, with PyTorch's CPU build; docs/guide/dashboard.md says how to run it.
FROM python:3.11-slim AS build
RUN python -m venv /opt/apviz
COPY binder/requirements.txt /src/tested.txt
# a layer of its own, which stays cached while the code changes
RUN /opt/apviz/bin/pip install --no-cache-dir --constraint /src/tested.txt torch
COPY . /src
# the version, which outside a checkout no tag says: docker build --build-arg VERSION=0.1.0
ARG VERSION=0.1.0.dev0
RUN SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION /opt/apviz/bin/pip install --no-cache-dir --constraint /src/tested.txt "/src[dashboard]"

FROM python:3.11-slim
# products with the kernel are compiled at their first use, and ten times faster then
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --create-home apviz && install -d -o apviz -g apviz /data
COPY --from=build /opt/apviz /opt/apviz
ENV PATH=/opt/apviz/bin:$PATH XDG_CACHE_HOME=/data/cache PYTHONUNBUFFERED=1
USER apviz
WORKDIR /data
VOLUME /data
EXPOSE 5006
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5006/plotly/plotly.min.js', timeout=5)"]
# it starts only with the environment variable APVIZ_PASSWORD, or with --no-auth
ENTRYPOINT ["apviz", "dashboard", "--no-show", "--address", "0.0.0.0", "--runs", "/data/runs"]
