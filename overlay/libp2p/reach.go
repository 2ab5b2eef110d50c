package libp2p

import (
	"bufio"
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
	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay/libp2p/libp2ppb"
)

const (
	// A host asks to be dialled back as soon as it has a neighbour, after
	// askFirst if that failed, twice as long each time up to askEvery; and
	// every askEvery when it is reachable, each time another peer.
	askFirst = 5 * time.Second
	askEvery = 15 * time.Minute

	// askPause lets a peer that has just been met notice that it has.
	askPause = 250 * time.Millisecond

	// askAgain keeps a peer from being asked more often than it would serve.
	askAgain = dialBackEvery + 10*time.Second

	// maxAskFails failures in a row, at different peers if there are as many,
	// end a host's reachability.
	maxAskFails = 3

	// provenTime is how long an address counts that was dialled once.
	provenTime = 2*askEvery + 5*time.Minute
)

// reach knows at which addresses peers dialled this host.
type reach struct {
	mu        sync.Mutex
	questions map[string]*question   // under way, by nonce
	proven    map[endpoint]time.Time // when last
	founder   []endpoint             // those of a founder need no proof
}

// A question is one request to be dialled back.
type question struct {
	peer   peer.ID
	asked  []endpoint
	worked []endpoint
}

func (r *reach) init() {
	r.questions = map[string]*question{}
	r.proven = map[endpoint]time.Time{}
}

// addrs returns the addresses that count now, in a fixed order.
func (r *reach) addrs() []endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.founder)
	for e, at := range r.proven {
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

// begin remembers a question and returns its nonce.
func (r *reach) begin(q *question) (nonce []byte) {
	nonce = make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // which never fails
	r.mu.Lock()
	defer r.mu.Unlock()
	r.questions[string(nonce)] = q
	return nonce
}

// end forgets a question and returns how many addresses worked.
func (r *reach) end(nonce []byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.questions[string(nonce)]
	delete(r.questions, string(nonce))
	for _, e := range q.worked {
		r.proven[e] = time.Now()
	}
	return len(q.worked)
}

// confirm notes that a nonce arrived; false if nobody asked for it.
func (r *reach) confirm(nonce []byte, from peer.ID, got endpoint, allowed bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.questions[string(nonce)]
	if q == nil || q.peer == from || !allowed || slices.Contains(q.worked, got) {
		return false
	}
	if !slices.ContainsFunc(q.asked, func(e endpoint) bool { return e.is(got) }) {
		return false
	}
	q.worked = append(q.worked, got)
	return true
}

// claim sets the addresses that need no proof.
func (r *reach) claim(founder []endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.founder = founder
}

// leave forgets the proof of addresses that the machine has no more. The host stays what it was until it is proven
// elsewhere, or has failed to be.
func (r *reach) leave(lost []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.proven {
		if slices.Contains(lost, e.ip) {
			delete(r.proven, e)
		}
	}
}

// lose forgets all proof.
func (r *reach) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.proven)
}

// takeNonce takes what a peer brings that dialled back. It comes from a host
// made for that, so a peer cannot bring it over a connection it already has.
func (h *Host) takeNonce(s network.Stream) {
	_ = s.SetDeadline(time.Now().Add(backTime))
	var m libp2ppb.Nonce
	if s.Conn().Stat().Direction != network.DirInbound || readMessage(s, &m) != nil {
		_ = s.Reset()
		return
	}
	e, ok := parseEndpoint(m.Addr)
	if !ok || !h.reach.confirm(m.Nonce, s.Conn().RemotePeer(), e, h.gate.allowed(e.ip)) {
		_ = s.Reset()
		return
	}
	_ = s.Close()
}

// A prover finds out whether the host can be dialled.
type prover struct {
	host    *Host
	report  func([]string)
	tell    event.Emitter // for kad-dht, which serves only if reachable
	asked   map[peer.ID]time.Time
	served  map[peer.ID]time.Time
	last    []endpoint // as reported
	fails   int        // in a row
	backoff time.Duration
}

// prove reports the addresses at which the host is reachable, and later changes,
// until ctx ends.
func (h *Host) prove(ctx context.Context, report func([]string)) {
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
		host: h, report: report, tell: tell, backoff: askFirst,
		asked: map[peer.ID]time.Time{}, served: map[peer.ID]time.Time{},
	}
	if h.config.Founder {
		p.founder(ctx, changes)
	} else {
		p.run(ctx, changes)
	}
}

// founder reports the founder's addresses without proof.
func (p *prover) founder(ctx context.Context, changes event.Subscription) {
	for {
		addrs := p.host.host.Addrs()
		if len(addrs) == 0 { // all private, where that is not allowed: better than no member at all
			addrs, _ = p.host.host.Network().InterfaceListenAddresses()
		}
		p.host.reach.claim(endpointsOf(addrs))
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
			sleep(ctx, askPause)
		case <-changes.Out():
			p.backoff = askFirst
		case <-p.host.movedOn:
			p.fails, p.backoff = 0, askFirst
			clear(p.asked)
		}
		timer.Stop()
	}
}

// step asks one peer. It returns when to ask the next, or on which sign sooner.
func (p *prover) step(ctx context.Context) (next time.Duration, met <-chan struct{}) {
	who, endpoints := p.choose(time.Now()), p.host.endpoints()
	if who == "" || len(endpoints) == 0 {
		return askFirst, p.host.neighbours.met
	}
	tried, worked, err := p.host.ask(ctx, who, endpoints)
	if err == nil {
		p.served[who] = time.Now()
	}
	switch {
	case err != nil: // says nothing about this host
		p.host.log.Debug("peer did not dial this node back to test its reachability", "peer", who, "err", err)
	case worked > 0:
		p.fails, p.backoff = 0, askFirst
		p.publish()
		return askEvery, nil
	case tried > 0:
		p.fails++
		p.host.count.dialBackFails.Add(1)
		if p.fails >= maxAskFails {
			p.host.reach.lose()
			p.publish()
		}
	}
	next, p.backoff = p.backoff, min(2*p.backoff, askEvery)
	return next, nil
}

// choose returns the neighbour that was asked longest ago, none if all were
// asked just now.
func (p *prover) choose(now time.Time) (who peer.ID) {
	neighbours := p.host.neighbours.list()
	for _, times := range []map[peer.ID]time.Time{p.asked, p.served} {
		for q, at := range times {
			if now.Sub(at) > askEvery && !slices.Contains(neighbours, q) {
				delete(times, q)
			}
		}
	}
	for _, q := range neighbours {
		if now.Sub(p.served[q]) >= askAgain && (who == "" || p.asked[q].Before(p.asked[who])) {
			who = q
		}
	}
	if who != "" {
		p.asked[who] = now
	}
	return who
}

// publish reports the addresses if they are others than before.
func (p *prover) publish() {
	addrs := p.host.reach.addrs()
	if slices.Equal(addrs, p.last) {
		return
	}
	p.last = addrs
	status := network.ReachabilityPrivate
	var binary []string
	for _, e := range addrs {
		status = network.ReachabilityPublic
		binary = append(binary, string(e.multiaddr().Bytes()))
	}
	if err := p.tell.Emit(event.EvtLocalReachabilityChanged{Reachability: status}); err != nil {
		p.host.log.Debug("reachability could not be reported to kad-dht", "err", err)
	}
	var dialable []ma.Multiaddr // a founder counts what its own machine can reach, too
	for _, e := range addrs {
		if p.host.gate.allowed(e.ip) {
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

// endpoints are those a peer may try: the ports the host listens at, wherever
// the peer sees it, then the addresses it believes to have.
func (h *Host) endpoints() []endpoint {
	var out []endpoint
	for _, e := range endpointsOf(h.host.Network().ListenAddresses()) {
		out = append(out, e.anywhere())
	}
	for _, e := range append(out, endpointsOf(h.host.Addrs())...) {
		if len(out) < maxAsked && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out[:min(len(out), maxAsked)]
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

// ask has a peer dial this host back. It returns how many addresses the peer
// tried, and at how many its nonce arrived. An error means that nothing was
// tried.
func (h *Host) ask(ctx context.Context, who peer.ID, endpoints []endpoint) (tried, worked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*handshakeTime+maxBacked*backTime)
	defer cancel()
	s, err := h.host.NewStream(network.WithNoDial(ctx, "dial back"), who, dialBackProtocol)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = s.Reset() }()
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()

	q := &question{peer: who, asked: endpoints}
	m := &libp2ppb.DialBack{Nonce: h.reach.begin(q)}
	for _, e := range endpoints {
		m.Addrs = append(m.Addrs, e.multiaddr().Bytes())
	}
	reply, err := exchange(s, m)
	worked = h.reach.end(m.Nonce)
	if err == nil && reply.Tried == 0 {
		err = fmt.Errorf("%w: %q", errNotTried, reply.Words)
	}
	if worked > 0 {
		return worked, worked, nil // whatever the peer says
	}
	return int(reply.GetTried()), 0, err
}

// errNotTried says that a peer would not dial.
var errNotTried = errors.New("the peer would not dial")

func exchange(s network.Stream, m proto.Message) (*libp2ppb.DialBackReply, error) {
	if err := writeMessage(s, m); err != nil {
		return nil, err
	}
	b, err := wire.ReadDelimited(bufio.NewReaderSize(s, 512), maxDialBack)
	if err != nil {
		return nil, err
	}
	reply := &libp2ppb.DialBackReply{}
	return reply, proto.Unmarshal(b, reply)
}
