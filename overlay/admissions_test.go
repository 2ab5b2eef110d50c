package overlay

import (
	"crypto/ed25519"
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// certifiedLab returns a lab whose node is a client in a network of certificates, and the signer of its authority.
func certifiedLab(t *testing.T) (*lab, *wire.Signer) {
	l := newLab(t)
	key := l.key(77)
	l.network.IDs, l.network.Authorities = wire.CertificateIDs, wire.JoinAuthorities(key.Public().(ed25519.PublicKey))
	l.hash = wire.HashOf(l.network.Descriptor())
	l.boot()
	return l, wire.NewSigner(key, l.hash)
}

func (l *lab) news(list []byte, wantReply bool) *overlaypb.Message {
	return &overlaypb.Message{Record: l.client(l.actor(1)).Raw, Body: newsMessage(list, wantReply).Body}
}

// However many lists and certificates a node gets, it plans one step at a time. Each used to add another, so that after a
// month of lists a node asked for a certificate thirty times a minute.
func TestANodeAsksForCertificatesAtItsPace(t *testing.T) {
	l, authority := certifiedLab(t)
	a := l.actor(1)
	for i := range 30 {
		if err := l.say(a, l.news(mustList(t, authority, Revocations{Number: uint64(i + 1), Renewers: []ID{{1}}}), false)); err != nil {
			t.Fatal(err)
		}
		l.pass(time.Second)
	}
	steps := 0
	for end := l.now.Add(10 * time.Minute); l.now.Before(end); l.now = l.now.Add(time.Second) {
		for {
			task, at, ok := l.node.cal.Pop(l.now)
			if !ok {
				break
			}
			if task.kind == taskCertificate {
				steps++
			}
			l.node.do(task, at, l.now)
		}
	}
	if steps < 5 || steps > 20 {
		t.Errorf("%d steps in ten minutes, want about one a minute", steps)
	}
}

// A short message gets the long lists once in a second, and not more often when several strangers ask in turn.
func TestListsAreNotSentToWhoeverKeepsAsking(t *testing.T) {
	l, authority := certifiedLab(t)
	if err := l.say(l.actor(1), l.news(mustList(t, authority, Revocations{Number: 1}), false)); err != nil {
		t.Fatal(err)
	}
	sent := func() (n int) {
		for _, s := range l.sent {
			if len(s.msg.GetAuthorityNews().GetRevocations()) > 0 {
				n++
			}
		}
		l.sent = nil
		return n
	}
	for range 3 {
		l.pass(2 * time.Second)
		sent()
		for n := range 20 {
			a := l.actor(1 + n%4)
			m := &overlaypb.Message{Record: l.client(a).Raw, Body: newsMessage(nil, true).Body}
			if n%2 > 0 {
				m.Body = probe(&overlaypb.Probe{Nonce: 1, Revocations: uint64(n)}).Body
			}
			if err := l.node.Receive(a.id(), wire.Encode(m)); err != nil {
				t.Fatal(err)
			}
		}
		if n := sent(); n != 1 {
			t.Errorf("the list was sent %d times, want once", n)
		}
	}
}
