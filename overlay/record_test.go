package overlay

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

func TestRecordSurvivesEncoding(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	verify := wire.NewVerifier(l.hash)
	for _, member := range []bool{true, false} {
		c := newRecord(l.network.Name, a.signer, []string{"one", "two"}, l.now, member)
		got, err := openRecord(l.network.Name, verify, c.Raw)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != c.ID || got.Peer.ID != a.signer.PeerID() || !slices.Equal(got.Peer.Addrs, c.Peer.Addrs) ||
			got.Issued != uint64(l.now.UnixMilli()) || got.Member != member || !bytes.Equal(got.Raw, c.Raw) {
			t.Errorf("%+v came back as %+v", c, got)
		}
	}
}

// Only a member can say that hubs can call it.
func TestRecordSaysWhetherHubsCanCall(t *testing.T) {
	l := newLab(t)
	in := identitiesOf(l.network.Name, nil)
	for _, member := range []bool{true, false} {
		c := in.newRecord(l.actor(1).signer, []string{"one"}, l.now, member, place{callbacks: true})
		got, err := openRecord(l.network.Name, wire.NewVerifier(l.hash), c.Raw)
		if err != nil || got.Callbacks != member || c.Callbacks != member {
			t.Errorf("member %v: %v of its own, %v of others, %v", member, c.Callbacks, got.Callbacks, err)
		}
	}
}

// Other nodes accept a node's record, however many and however long its addresses are.
func TestOwnRecordIsWithinItsBounds(t *testing.T) {
	l := newLab(t)
	addrs := []string{strings.Repeat("x", maxAddress+1)}
	for range 20 {
		addrs = append(addrs, strings.Repeat("y", maxAddress))
	}
	c := newRecord(l.network.Name, l.actor(1).signer, addrs, l.now, true)
	got, err := openRecord(l.network.Name, wire.NewVerifier(l.hash), c.Raw)
	if err != nil || len(got.Peer.Addrs) != maxAddresses || slices.Contains(got.Peer.Addrs, addrs[0]) {
		t.Errorf("%v with %d addresses", err, len(got.Peer.Addrs))
	}
}

func TestInvalidRecordsAreRefused(t *testing.T) {
	l := newLab(t)
	s := l.actor(1).signer
	sign := func(m *overlaypb.Record) []byte {
		payload := wire.Encode(m)
		return s.Sign(wire.DomainRecord, payload).Raw
	}
	many := &overlaypb.Record{}
	for range maxAddresses + 1 {
		many.Addresses = append(many.Addresses, []byte("a"))
	}
	good := sign(&overlaypb.Record{})
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	foreign := wire.HashOf([]byte("another network"))
	for what, raw := range map[string][]byte{
		"nothing":            nil,
		"no envelope":        []byte("record"),
		"too long":           append(slices.Clone(good), bytes.Repeat([]byte{0x22, 1, 0}, MaxRecord/3)...),
		"forged":             forged,
		"too many addresses": sign(many),
		"too long address":   sign(&overlaypb.Record{Addresses: [][]byte{make([]byte, maxAddress+1)}}),
		"no message":         s.Sign(wire.DomainRecord, []byte{0xff}).Raw,
		"of another domain":  s.Sign("tidings/other/1", nil).Raw,
		"of another network": newRecord(l.network.Name, wire.NewSigner(l.key(1), foreign), nil, l.now, true).Raw,
	} {
		if _, err := openRecord(l.network.Name, wire.NewVerifier(l.hash), raw); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := openRecord(l.network.Name, wire.NewVerifier(l.hash), good); err != nil {
		t.Error(err)
	}
}

// A node remembers the members it knew, and when it last issued a record.
func TestPeersAreRememberedAcrossARestart(t *testing.T) {
	l := newLab(t)
	n := l.member()
	var met []*actor
	for i := range 5 {
		a := l.actor(i + 1)
		met = append(met, a)
		if err := l.say(a, probe(&overlaypb.Probe{Nonce: 1})); err != nil {
			t.Fatal(err)
		}
	}
	client := l.actor(9)
	client.contact = l.client(client)
	l.say(client, probe(&overlaypb.Probe{Nonce: 1, Attach: true}))
	for range 4 { // the members stay alive until they are saved
		l.pass(20 * time.Second)
		for _, a := range met {
			l.answers(a)
		}
	}
	issued := n.Self().Issued
	remembered, err := Remembered(l, l.network, wire.NewVerifier(l.hash))
	if err != nil || len(remembered) != len(met) || n.Stats().Known != len(met) {
		t.Fatalf("%d of %d remembered, %v", len(remembered), len(met), err)
	}
	for _, a := range met {
		if !slices.ContainsFunc(remembered, func(c *Contact) bool { return bytes.Equal(c.Raw, a.contact.Raw) }) {
			t.Errorf("%s is forgotten", a.contact.ID.Short())
		}
	}

	l.now = l.now.Add(-time.Hour) // the clock goes back during the restart
	l.sent = nil
	n = l.boot()
	if n.Self().Issued <= issued {
		t.Error("the record after the restart is older than the one before")
	}
	n.Reachable([]string{"here"})
	l.pass(5 * time.Second)
	asked := 0
	for _, a := range met {
		if slices.ContainsFunc(l.heard(a), func(m *overlaypb.Message) bool { return m.GetFind() != nil }) {
			asked++
		}
	}
	if asked == 0 || n.State() != Alone {
		t.Errorf("asks %d of the remembered peers; %v", asked, n.State())
	}
	// No remembered peer answers, so the node acts alone, but keeps probing them.
	l.pass(2 * time.Minute)
	if n.State() != Active {
		t.Fatalf("after a minute without answer it is %v", n.State())
	}
	l.sent = nil
	l.pass(5 * time.Minute)
	knocks := 0
	for _, a := range met {
		for _, m := range l.heard(a) {
			if m.GetProbe() != nil {
				knocks++
			}
		}
	}
	if knocks < 3 {
		t.Errorf("%d of its old peers were looked for in five minutes", knocks)
	}
}

func TestOldestRememberedPeersAreDeletedFirst(t *testing.T) {
	l := newLab(t)
	n := l.member()
	for i := range 300 {
		l.now = l.now.Add(time.Millisecond)
		c := newRecord(l.network.Name, l.actor(i+1).signer, nil, l.now, true)
		n.memory.noteSaved(c)
		l.records[string(peerKey(c.ID))] = c.Raw
	}
	n.memory.savePeriodically()
	remembered, _ := remembered(l, n.records)
	if len(remembered) != maxRemembered || n.Stats().Known != maxRemembered {
		t.Fatalf("%d are remembered", len(remembered))
	}
	for _, c := range remembered {
		if l.now.Sub(time.UnixMilli(int64(c.Issued))) >= maxRemembered*time.Millisecond {
			t.Errorf("a peer of %v ago is remembered", l.now.Sub(time.UnixMilli(int64(c.Issued))))
		}
	}
}

// As long as nobody has confirmed the network, its members cannot make the node forget those of its earlier run.
func TestMembersOfAnEarlierRunOutlastAFalseNetwork(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		l := newLab(t)
		n := l.member()
		known := func(first, count int, keep func(c *Contact)) {
			for i := range count {
				l.now = l.now.Add(time.Millisecond)
				keep(newRecord(l.network.Name, l.actor(first+i).signer, nil, l.now, true))
			}
		}
		known(1, 150, func(c *Contact) {
			n.memory.remembered = append(n.memory.remembered, c)
			n.memory.noteSaved(c)
		})
		n.memory.trusted = trusted
		for round := range 3 { // each time, the network has other members
			n.leaf.members = []*Contact{n.self}
			known(1000*(round+1), 250, func(c *Contact) { n.leaf.members = append(n.leaf.members, c) })
			n.memory.save()
		}
		kept := 0
		for _, c := range n.memory.remembered {
			if hasContact(n.memory.saved, c) {
				kept++
			}
		}
		if want := map[bool]int{false: maxRemembered / 2, true: 0}[trusted]; kept != want || len(n.memory.saved) != maxRemembered {
			t.Errorf("trusted %v: %d of %d are kept, want %d", trusted, kept, len(n.memory.saved), want)
		}
	}
}
