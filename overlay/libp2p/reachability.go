package libp2p

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	ma "github.com/multiformats/go-multiaddr"

	"tidings/overlay/libp2p/libp2ppb"
)

const (
	// A host asks to be dialled back as soon as it has a neighbour. If that fails, it asks another peer after
	// firstAskDelay, twice as long after each failure, up to askInterval. When the host is reachable, it asks
	// another peer every askInterval.
	firstAskDelay = 5 * time.Second
	askInterval   = 15 * time.Minute

	// askDelay gives a new neighbour time to register this host as its neighbour, too.
	askDelay = 250 * time.Millisecond

	// askSameInterval is the time between two requests to the same peer, a little more than the peer demands.
	askSameInterval = dialBackInterval + 10*time.Second

	// maxAskFailures is the number of consecutive failures, at different peers if there are enough, after which a
	// host is no longer reachable.
	maxAskFailures = 3

	// provenTime is how long a successful dial-back counts.
	provenTime = 2*askInterval + 5*time.Minute
)

// reachability records the addresses at which peers have dialled this host.
type reachability struct {
	mu           sync.Mutex
	requests     map[string]*dialBackRequest // requests in progress, by nonce
	provenAt     map[endpoint]time.Time      // when each address was last reached
	founderAddrs []endpoint                  // addresses of a founder, which need no proof
}

// A dialBackRequest is one request to be dialled back.
type dialBackRequest struct {
	peer      peer.ID
	addrs     []endpoint
	confirmed []endpoint
}

func (r *reachability) init() {
	r.requests = map[string]*dialBackRequest{}
	r.provenAt = map[endpoint]time.Time{}
}

// addrs returns the addresses that count now, in a fixed order.
func (r *reachability) addrs() []endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.founderAddrs)
	for e, at := range r.provenAt {
		if time.Since(at) < provenTime {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b endpoint) int {
		if a.quic != b.quic && a.ip == b.ip {
			if a.quic {
				return -1
			}
			return 1
		}
		return cmp.Or(a.ip.Compare(b.ip), cmp.Compare(a.port, b.port))
	})
	return out
}

// begin registers a request and returns its nonce.
func (r *reachability) begin(q *dialBackRequest) (nonce []byte) {
	nonce = make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[string(nonce)] = q
	return nonce
}

// end removes a request, and returns how many addresses were reached.
func (r *reachability) end(nonce []byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.requests[string(nonce)]
	delete(r.requests, string(nonce))
	for _, e := range q.confirmed {
		r.provenAt[e] = time.Now()
	}
	return len(q.confirmed)
}

// confirm records that a nonce arrived. It returns false if the nonce proves nothing.
func (r *reachability) confirm(nonce []byte, from peer.ID, got endpoint, allowed bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.requests[string(nonce)]
	if q == nil || q.peer == from || !allowed || slices.Contains(q.confirmed, got) {
		return false
	}
	if !slices.ContainsFunc(q.addrs, func(e endpoint) bool { return e.matches(got) }) {
		return false
	}
	q.confirmed = append(q.confirmed, got)
	return true
}

// setFounderAddrs sets the addresses that need no proof.
func (r *reachability) setFounderAddrs(founder []endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.founderAddrs = founder
}

// forgetAddrs forgets the proof for addresses that the machine has lost. The host's reported state changes only
// after the next proof, or after maxAskFailures.
func (r *reachability) forgetAddrs(lost []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.provenAt {
		if slices.Contains(lost, e.ip) {
			delete(r.provenAt, e)
		}
	}
}

// forgetAll forgets all proof.
func (r *reachability) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.provenAt)
}

// receiveNonce reads the nonce that a peer sends when it dials back. The peer sends it from a new libp2p host, so
// it cannot arrive over an existing connection.
func (h *Host) receiveNonce(s network.Stream) {
	_ = s.SetDeadline(time.Now().Add(dialBackTime))
	var m libp2ppb.Nonce
	if s.Conn().Stat().Direction != network.DirInbound || readMessage(s, &m) != nil {
		_ = s.Reset()
		return
	}
	e, ok := parseEndpoint(m.Addr)
	if !ok || !h.reachability.confirm(m.Nonce, s.Conn().RemotePeer(), e, h.gater.allowed(e.ip)) {
		_ = s.Reset()
		return
	}
	_ = s.Close()
}

// A prover finds out whether other nodes can dial the host.
type prover struct {
	host       *Host
	report     func([]string)
	emitter    event.Emitter // tells kad-dht, which serves queries only if the host is reachable
	askedAt    map[peer.ID]time.Time
	answeredAt map[peer.ID]time.Time
	reported   []endpoint // the addresses last reported
	failures   int        // consecutive failures
	backoff    time.Duration
}

// proveReachable reports the addresses at which the host is reachable, and later changes, until ctx ends.
func (h *Host) proveReachable(ctx context.Context, report func([]string)) {
	tell, err := h.host.EventBus().Emitter(new(event.EvtLocalReachabilityChanged), eventbus.Stateful)
	if err != nil {
		h.log.Error("reachability of this node cannot be tested", "err", err)
		return
	}
	defer tell.Close()
	changes, err := h.host.EventBus().Subscribe(new(event.EvtLocalAddressesUpdated))
	if err != nil {
		h.log.Error("reachability of this node cannot be tested", "err", err)
		return
	}
	defer changes.Close()
	p := &prover{
		host: h, report: report, emitter: tell, backoff: firstAskDelay,
		askedAt: map[peer.ID]time.Time{}, answeredAt: map[peer.ID]time.Time{},
	}
	if h.config.Founder {
		p.runFounder(ctx, changes)
	} else {
		p.run(ctx, changes)
	}
}

// runFounder reports the founder's addresses without proof.
func (p *prover) runFounder(ctx context.Context, changes event.Subscription) {
	for {
		addrs := p.host.host.Addrs()
		if len(addrs) == 0 { // All addresses are private, where that is not allowed. A founder at a private address is better than no member at all.
			addrs, _ = p.host.host.Network().InterfaceListenAddresses()
		}
		p.host.reachability.setFounderAddrs(endpointsOf(addrs))
		p.publish()
		select {
		case <-ctx.Done():
			return
		case <-changes.Out():
		}
	}
}

// run asks one peer after another.
func (p *prover) run(ctx context.Context, changes event.Subscription) {
	for ctx.Err() == nil {
		next, met := p.step(ctx)
		timer := time.NewTimer(jitter(next))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-met:
			sleepAbout(ctx, askDelay)
		case <-changes.Out():
			p.backoff = firstAskDelay
		case <-p.host.addressesChanged:
			p.failures, p.backoff = 0, firstAskDelay
			clear(p.askedAt)
		}
		timer.Stop()
	}
}

// step asks one peer. It returns the time until the next attempt, and a channel that may end the wait earlier.
func (p *prover) step(ctx context.Context) (next time.Duration, met <-chan struct{}) {
	target, endpoints := p.choose(time.Now()), p.host.endpoints()
	if target == "" || len(endpoints) == 0 {
		return firstAskDelay, p.host.neighbours.added
	}
	tried, worked, err := p.host.askDialBack(ctx, target, endpoints)
	if err == nil {
		p.answeredAt[target] = time.Now()
	}
	switch {
	case err != nil: // says nothing about this host's reachability
		p.host.log.Debug("peer did not dial this node back to test its reachability", "peer", target, "err", err)
	case worked > 0:
		p.failures, p.backoff = 0, firstAskDelay
		p.publish()
		return askInterval, nil
	case tried > 0:
		p.failures++
		p.host.count.dialBackFails.Add(1)
		if p.failures >= maxAskFailures {
			p.host.reachability.forgetAll()
			p.publish()
		}
	}
	next, p.backoff = p.backoff, min(2*p.backoff, askInterval)
	return next, nil
}

// choose returns the neighbour that was asked longest ago, or "" if all were asked recently.
func (p *prover) choose(now time.Time) (target peer.ID) {
	neighbours := p.host.neighbours.list()
	for _, times := range []map[peer.ID]time.Time{p.askedAt, p.answeredAt} {
		for id, at := range times {
			if now.Sub(at) > askInterval && !slices.Contains(neighbours, id) {
				delete(times, id)
			}
		}
	}
	for _, id := range neighbours {
		if now.Sub(p.answeredAt[id]) >= askSameInterval && (target == "" || p.askedAt[id].Before(p.askedAt[target])) {
			target = id
		}
	}
	if target != "" {
		p.askedAt[target] = now
	}
	return target
}

// publish reports the addresses if they have changed.
func (p *prover) publish() {
	addrs := p.host.reachability.addrs()
	if slices.Equal(addrs, p.reported) {
		return
	}
	p.reported = addrs
	status := network.ReachabilityPrivate
	var binary []string
	for _, e := range addrs {
		status = network.ReachabilityPublic
		binary = append(binary, string(e.multiaddr().Bytes()))
	}
	if err := p.emitter.Emit(event.EvtLocalReachabilityChanged{Reachability: status}); err != nil {
		p.host.log.Debug("reachability could not be reported to kad-dht", "err", err)
	}
	var dialable []ma.Multiaddr // leaves out a founder's addresses that only its own machine can reach
	for _, e := range addrs {
		if p.host.gater.allowed(e.ip) {
			dialable = append(dialable, e.multiaddr())
		}
	}
	if len(dialable) > 0 {
		p.host.log.Info("other nodes can reach this node", "addresses", publicFirst(dialable))
	} else {
		p.host.log.Info("other nodes cannot reach this node")
	}
	p.report(binary)
}

// endpoints returns the endpoints that a peer should try: first the listening ports at whatever address the peer
// sees, then the addresses that the host knows of itself.
func (h *Host) endpoints() []endpoint {
	var out []endpoint
	for _, e := range endpointsOf(h.host.Network().ListenAddresses()) {
		out = append(out, e.withoutIP())
	}
	for _, e := range append(out, endpointsOf(h.host.Addrs())...) {
		if len(out) < maxDialBackAddrs && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out[:min(len(out), maxDialBackAddrs)]
}

func endpointsOf(addrs []ma.Multiaddr) []endpoint {
	var out []endpoint
	for _, a := range addrs {
		if e, ok := endpointOf(a); ok && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// askDialBack asks a peer to dial this host back. It returns how many addresses the peer tried, and at how many the
// nonce arrived. An error means that the peer tried none.
func (h *Host) askDialBack(ctx context.Context, target peer.ID, endpoints []endpoint) (tried, worked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*handshakeTime+maxDialBackTries*dialBackTime)
	defer cancel()
	s, err := h.host.NewStream(network.WithNoDial(ctx, "dial back"), target, dialBackProtocol)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = s.Reset() }()
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()

	q := &dialBackRequest{peer: target, addrs: endpoints}
	m := &libp2ppb.DialBack{Nonce: h.reachability.begin(q)}
	for _, e := range endpoints {
		m.Addrs = append(m.Addrs, e.multiaddr().Bytes())
	}
	var reply libp2ppb.DialBackReply
	if err = writeMessage(s, m); err == nil {
		err = readMessage(s, &reply)
	}
	worked = h.reachability.end(m.Nonce)
	if err == nil && reply.Tried == 0 {
		err = fmt.Errorf("%w: %q", errNoDialBack, reply.Reason)
	}
	if worked > 0 {
		return worked, worked, nil // a nonce that arrived counts more than the reply
	}
	return int(reply.Tried), 0, err
}

// errNoDialBack says that a peer did not dial back.
var errNoDialBack = errors.New("the peer would not dial")
