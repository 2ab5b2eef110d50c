# An image with nothing in it but the program and certificates. packaging/test-image.sh builds and starts it, or takes
# the same steps where there is no Docker: it knows the instructions below, each on one line.
#
#   docker build -t tidings --build-arg VERSION=1.2.3 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH TARGETVARIANT VERSION COMMIT
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN [ "$TARGETARCH" != arm ] || export GOARM=${TARGETVARIANT#v}; GOOS=$TARGETOS GOARCH=$TARGETARCH packaging/build.sh /out/tidings
RUN mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/tidings /usr/bin/tidings
COPY --from=build --chown=65532:65532 /out/data /data
ENV PATH=/usr/bin
ENV HOME=/data
ENV TIDINGS_DATA=/data
USER 65532:65532
VOLUME /data
EXPOSE 4801/tcp 4801/udp 8190/tcp
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s CMD ["/usr/bin/tidings", "healthcheck"]
ENTRYPOINT ["/usr/bin/tidings"]
CMD ["run"]
