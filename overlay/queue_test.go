package overlay

import (
	"testing"
	"time"

	"tidings/overlay/overlaypb"
)

// A node that routes many messages at once never has more than maxInFlight of them
// unacknowledged. Queued messages are sent as others are taken over, each once, and none is
// lost.
func TestOwnMessagesAreQueued(t *testing.T) {
	const count = 3 * maxInFlight
	l := newLab(t)
	n := l.member()
	root := l.actorsNear(n.ID(), 0, 1)[0]
	l.welcome(n, root)
	done := 0
	for range count {
		n.Route(inboxLayer, root.contact.ID, nil, func(_ Receipt, ok bool) {
			if ok {
				done++
			}
		})
	}
	for sent := 0; sent < count; {
		routes := l.takeRoutes(root)
		if len(routes) == 0 || len(routes) > maxInFlight {
			t.Fatalf("%d messages in flight after %d were taken over", len(routes), sent)
		}
		sent += len(routes)
		for _, r := range routes {
			l.say(root, ack(&overlaypb.Ack{Id: r.Id, Receipt: true, Root: root.contact.ID[:]}))
		}
	}
	if done != count || n.inFlight != 0 || len(n.sendQueue) != 0 {
		t.Errorf("%d of %d arrived, %d are in flight, %d are queued", done, count, n.inFlight, len(n.sendQueue))
	}
}

// A queued message fails at its deadline, like one that was sent.
func TestQueuedMessagesFailAtTheirDeadline(t *testing.T) {
	const count = 3 * maxInFlight
	l := newLab(t)
	n := l.member()
	root := l.actorsNear(n.ID(), 0, 1)[0]
	l.welcome(n, root)
	failed := 0
	for range count {
		n.Route(inboxLayer, root.contact.ID, nil, func(_ Receipt, ok bool) {
			if !ok {
				failed++
			}
		})
	}
	for range 120 { // the root is alive but takes no message over
		l.pass(time.Second / 2)
		l.answers(root)
	}
	l.pass(time.Second)
	if failed != count || n.inFlight != 0 || len(n.sendQueue) != 0 {
		t.Errorf("%d of %d failed, %d are in flight, %d are queued", failed, count, n.inFlight, len(n.sendQueue))
	}
}

// welcome makes an actor a member of the node's leaf.
func (l *lab) welcome(n *Node, a *actor) {
	l.t.Helper()
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	l.answers(a)
	if n.Leaf().Has(a.contact.ID) == nil {
		l.t.Fatal("a member that answers is not in the leaf")
	}
}

// takeRoutes returns and removes the Route messages sent to an actor.
func (l *lab) takeRoutes(a *actor) (of []*overlaypb.Route) {
	for _, m := range l.heard(a) {
		if r := m.GetRoute(); r != nil {
			of = append(of, r)
		}
	}
	return of
}
