package overlay

import (
	"testing"
	"time"

	"tidings/overlay/overlaypb"
)

// Who routes much at once has no more of it on its way than the next hop takes over. What
// waits is sent as that goes on, each once, and none is forgotten.
func TestOwnMessagesWaitInLine(t *testing.T) {
	const count = 3 * maxInFlight
	l := newLab(t)
	n := l.member()
	root := l.near(n.ID(), 0, 1)[0]
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
		routes := l.routes(root)
		if len(routes) == 0 || len(routes) > maxInFlight {
			t.Fatalf("%d messages on their way after %d were taken over", len(routes), sent)
		}
		sent += len(routes)
		for _, r := range routes {
			l.say(root, ack(&overlaypb.Ack{Id: r.Id, Receipt: true, Root: root.contact.ID[:]}))
		}
	}
	if done != count || n.inFlight != 0 || len(n.sendQueue) != 0 {
		t.Errorf("%d of %d have arrived, %d are on their way, %d wait", done, count, n.inFlight, len(n.sendQueue))
	}
}

// What waits in line ends with its deadline, like what was sent.
func TestTheLineEnds(t *testing.T) {
	const count = 3 * maxInFlight
	l := newLab(t)
	n := l.member()
	root := l.near(n.ID(), 0, 1)[0]
	l.welcome(n, root)
	failed := 0
	for range count {
		n.Route(inboxLayer, root.contact.ID, nil, func(_ Receipt, ok bool) {
			if !ok {
				failed++
			}
		})
	}
	for range 120 { // the root lives, and takes nothing over
		l.pass(time.Second / 2)
		l.answers(root)
	}
	l.pass(time.Second)
	if failed != count || n.inFlight != 0 || len(n.sendQueue) != 0 {
		t.Errorf("%d of %d have failed, %d are on their way, %d wait", failed, count, n.inFlight, len(n.sendQueue))
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

// routes are the messages that were routed by way of an actor since it was last heard.
func (l *lab) routes(a *actor) (of []*overlaypb.Route) {
	for _, m := range l.heard(a) {
		if r := m.GetRoute(); r != nil {
			of = append(of, r)
		}
	}
	return of
}
