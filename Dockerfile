# The images of Podgrace, one target each: webhook, nodeenforcer, fencer, volumelock, fencer-agents (the fencer with ClusterLabs' fence agents), podgrace (the command line),
# preview (the command line with podgrace-preview, which has the scheduler of Kubernetes in it).
#
#   docker build --target webhook --tag podgrace/webhook --build-arg VERSION=v1.2.3 .
#
# For other architectures: docker buildx build --platform linux/amd64,linux/arm64 ... ; Go cross-compiles, nothing is
# emulated. Where no registry and no module proxy can be reached, name other base images and put a vendor folder
# (go mod vendor) beside go.mod, and for preview beside its own.
ARG GO_IMAGE=golang:1.26
ARG BASE_IMAGE=scratch
# Where the programs come from: the stage that compiles them, or an image that has them in /out, with the authorities below.
ARG PROGRAMS=build
# Where podgrace-preview comes from.
ARG PREVIEW=build-preview
# Where the fence agents come from: the stage that installs them, or an image that has them.
ARG AGENTS=agents
ARG VERSION=dev

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS source
WORKDIR /src
COPY . .
ARG TARGETOS
ARG TARGETARCH
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOTOOLCHAIN=local

FROM source AS build
# The last thing before it is used: of another version nothing but the linking is done again.
ARG VERSION
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -trimpath -buildvcs=false -ldflags="-s -w -X github.com/podgrace/podgrace/internal/program/version.linked=$VERSION" -o /out/ ./cmd/webhook ./cmd/nodeenforcer ./cmd/fencer ./cmd/volumelock ./cmd/podgrace

FROM source AS build-preview
ARG VERSION
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -C preview -trimpath -buildvcs=false -ldflags="-s -w -X github.com/podgrace/podgrace/internal/program/version.linked=$VERSION" -o /out/ ./cmd/podgrace-preview

# The programs that goreleaser has compiled (.goreleaser.yaml).
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS released
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/ /out/

FROM ${PROGRAMS} AS programs

FROM ${PREVIEW} AS preview-program

# What a program without its own root file system needs: authorities to trust, for kubeconfigs that name none.
FROM ${BASE_IMAGE} AS base
ARG VERSION
LABEL org.opencontainers.image.title=podgrace \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION
COPY --from=programs /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/

FROM base AS podgrace
COPY --from=programs /out/podgrace /usr/local/bin/podgrace
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/podgrace"]

FROM podgrace AS preview
COPY --from=preview-program /out/podgrace-preview /usr/local/bin/podgrace-preview

# The owner of a node's cgroup files is root; the DaemonSet takes away what root has beyond that.
FROM base AS nodeenforcer
COPY --from=programs /out/nodeenforcer /usr/local/bin/nodeenforcer
USER 0:0
ENTRYPOINT ["/usr/local/bin/nodeenforcer"]

FROM base AS volumelock
COPY --from=programs /out/volumelock /usr/local/bin/volumelock
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/volumelock"]

FROM base AS fencer
COPY --from=programs /out/fencer /usr/local/bin/fencer
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/fencer"]

# For FenceAgents of type Exec. They are programs in Python and shell, and those that they call, as ipmitool.
FROM debian:13-slim AS agents
RUN apt-get update && apt-get install --yes --no-install-recommends fence-agents ca-certificates && rm -rf /var/lib/apt/lists/*

FROM ${AGENTS} AS fencer-agents
COPY --from=programs /out/fencer /usr/local/bin/fencer
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/fencer"]

FROM base AS webhook
COPY --from=programs /out/webhook /usr/local/bin/webhook
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/webhook"]
