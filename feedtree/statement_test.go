package feedtree_test

import (
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// subscriptionsOf returns how all readers of a published feed see it.
func (n *publishedFeed) subscriptions() (of []feedtree.Subscription) {
	for _, p := range append(n.readers, n.publisherNode) {
		s, _ := p.Layers().Feeds.Subscription(n.Key(url))
		of = append(of, s)
	}
	return of
}

// "heartbeats … allow clients to detect" that something is missing: a publisher's own say that nothing is new. Every
// reader's node knows within one and a half of the promised intervals that the publisher is overdue, and that it is not
// when it speaks again.
func TestReadersNoticeThatAPublisherIsOverdue(t *testing.T) {
	n := newPublishedFeed(t)
	check := func(what string, silent bool) {
		t.Helper()
		for i, s := range n.subscriptions() {
			if s.Silent.IsZero() == silent {
				t.Errorf("%s: reader %d: silent since %v", what, i, s.Silent)
			}
		}
	}
	spoke := n.Now()
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(14 * time.Minute) // the interval is ten minutes
	check("in time", false)
	n.World.Run(4 * time.Minute)
	check("after one and a half intervals", true)
	for i, s := range n.subscriptions() {
		if s.Silent.Sub(spoke).Abs() > time.Second {
			t.Errorf("reader %d: silent since %v, and the last item was signed at %v", i, s.Silent, spoke)
		}
	}
	for range 3 {
		if err := push(n.Swarm, n.publisherNode, n.publisher.sign(n.Swarm, n.publisher.seq, n.publisher.prev, nil)); err != nil {
			t.Fatal(err)
		}
		n.World.Run(5 * time.Minute)
		check("it speaks again", false)
		n.World.Run(9 * time.Minute)
		check("it spoke", false)
	}
	n.World.Run(5 * time.Minute)
	check("silent again", true)
	checkSwarm(t, n.Swarm)
}

// A sequencer that hides the end of the log cannot hide it if a statement that names it gets through: readers say how
// many items they lack.
func TestAStatementShowsAHiddenEnd(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	hidden := n.publisher.write(n.Swarm, "hidden") // never pushed
	n.World.Run(time.Minute)
	statement := n.publisher.sign(n.Swarm, hidden.Seq, hidden.Hash, nil)
	lead := leader(t, n.Swarm, url)
	lead.Do(func() {
		lead.Layers().Scribe.Publish(n.Key(url), wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Statement{Statement: statement.Raw}}), func(bool) {})
	})
	n.World.Run(time.Minute)
	for i, s := range n.subscriptions() {
		if s.Unseen != 1 || !s.UnseenSince.Equal(statement.Time) {
			t.Errorf("reader %d lacks %d items since %v", i, s.Unseen, s.UnseenSince)
		}
	}
	if err := push(n.Swarm, n.publisherNode, hidden); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Minute)
	for i, s := range n.subscriptions() {
		if s.Unseen != 0 || !s.UnseenSince.IsZero() {
			t.Errorf("reader %d still lacks %d items", i, s.Unseen)
		}
	}
	checkSwarm(t, n.Swarm)
}

// Statements of strangers, with items, from the future, or out of order change nothing.
func TestOnlyStatementsOfThePublisherCount(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	stranger := newPublisher(t, 9)
	early := n.publisher.sign(n.Swarm, 7, feed.Hash{7}, nil)
	n.World.Run(time.Minute)
	if err := push(n.Swarm, n.publisherNode, n.publisher.sign(n.Swarm, 1, n.publisher.prev, nil)); err != nil {
		t.Fatal(err)
	}
	lead := leader(t, n.Swarm, url)
	future, err := difference.Publish(n.publisher.key, url, 8, feed.Hash{8}, n.Now().Add(2*time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range [][]byte{
		stranger.sign(n.Swarm, 5, feed.Hash{5}, nil).Raw, early.Raw, n.publisher.sign(n.Swarm, 2, n.publisher.prev, newItem(t, "an item")).Raw, future.Raw, []byte("nothing"),
	} {
		lead.Do(func() {
			lead.Layers().Scribe.Publish(n.Key(url), wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Statement{Statement: raw}}), func(bool) {})
		})
	}
	n.World.Run(2 * time.Minute)
	for i, s := range n.subscriptions() {
		if s.Unseen != 0 || !s.Silent.IsZero() {
			t.Errorf("reader %d lacks %d items, silent since %v", i, s.Unseen, s.Silent)
		}
	}
}
