package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// peerSubject is the subject and the name of the peer's stream.
const peerSubject = "feed"

// A benchPeer is NATS JetStream: a cluster of three servers in this process, with one stream that has three replicas on disk
// and syncs each write. It has no consumers.
type benchPeer struct {
	servers []*server.Server
	conns   []*nats.Conn // of the writers, spread over the servers
	streams []jetstream.JetStream
}

// openBenchPeer starts the servers, creates the stream and connects the writers. The caller closes the result, also after an
// error.
func openBenchPeer(ctx context.Context, dir string, writers int) (p *benchPeer, err error) {
	p = &benchPeer{}
	const replicas = 3
	var ports [replicas]int
	var routes []*url.URL
	for i := range replicas {
		addr, err := freePort()
		if err != nil {
			return p, err
		}
		route, err := url.Parse("nats://" + addr)
		if err == nil {
			ports[i], err = strconv.Atoi(route.Port())
		}
		if err != nil {
			return p, fmt.Errorf("address of server %d of the peer: %w", i, err)
		}
		routes = append(routes, route)
	}
	for i := range replicas {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("peer%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprintf("peer%d", i)), SyncAlways: true,
			Cluster: server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: ports[i]}, Routes: routes, // a server leaves out itself
		})
		if err != nil {
			return p, fmt.Errorf("server %d of the peer: %w", i, err)
		}
		p.servers = append(p.servers, s)
		go s.Start() // ends when it has started
	}
	for i, s := range p.servers {
		if !s.ReadyForConnections(publishTimeout) {
			return p, fmt.Errorf("server %d of the peer took no connections within %v", i, publishTimeout)
		}
	}
	for i := range writers {
		c, err := nats.Connect(p.servers[i%replicas].ClientURL())
		if err != nil {
			return p, fmt.Errorf("connect writer %d to the peer: %w", i, err)
		}
		p.conns = append(p.conns, c)
		stream, err := jetstream.New(c)
		if err != nil {
			return p, fmt.Errorf("connect writer %d to the peer: %w", i, err)
		}
		p.streams = append(p.streams, stream)
	}
	var refused error
	err = until(ctx, "the peer to create its stream", func() (bool, error) { // it refuses until the servers have elected a leader
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, refused = p.streams[0].CreateStream(ctx, jetstream.StreamConfig{
			Name: peerSubject, Subjects: []string{peerSubject}, Replicas: replicas, Storage: jetstream.FileStorage,
		})
		return refused == nil, nil
	})
	return p, errors.Join(err, refused)
}

// write publishes an item and returns when a quorum has it on disk.
func (p *benchPeer) write(ctx context.Context, writer int, item []byte) error {
	_, err := p.streams[writer].Publish(ctx, peerSubject, item)
	return err
}

// close ends the connections and the servers, and returns when they have ended.
func (p *benchPeer) close() {
	for _, c := range p.conns {
		c.Close()
	}
	for _, s := range p.servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
}
