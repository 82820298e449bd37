# A node in a container: docker build -t sardonyx . && docker run --rm sardonyx demo
#
#   docker run -v sardonyx:/var/lib/sardonyx -e SARDONYX_PEERS=8 sardonyx
#
# Settings are variables (docs/guide/configuration.md). Nothing is published unless you do: to let other containers
# use its store, give --listen 0.0.0.0:7440 with a --token-file.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin sardonyx

FROM debian:bookworm-slim
# Certificates of public authorities, for stores and queues that are reached by TLS.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --home-dir /var/lib/sardonyx --create-home sardonyx
COPY --from=build /src/target/release/sardonyx /usr/local/bin/sardonyx
USER sardonyx
WORKDIR /var/lib/sardonyx
VOLUME /var/lib/sardonyx
ENV SARDONYX_STORE=embedded:/var/lib/sardonyx
# It leaves the ring when it is asked to stop.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/sardonyx"]
CMD ["start"]
