package feedtree_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/sim"
)

// pushAll publishes all publications at once through a peer's node. It returns the results, and the order in which
// they became known.
func pushAll(t *testing.T, s *sim.Swarm, by *sim.Peer, of ...*difference.Publication) (errs []error, order []int) {
	t.Helper()
	errs = make([]error, len(of))
	by.Do(func() {
		for i, p := range of {
			by.Layers().Feeds.Publish(p.Raw, func(e error) { errs[i], order = e, append(order, i) })
		}
	})
	if !s.RunUntil(func() bool { return len(order) == len(of) }, 10*time.Millisecond, 2*time.Minute) {
		t.Fatalf("%d of %d publications were answered", len(order), len(of))
	}
	return errs, order
}

// Publications that arrive while an entry waits for its quorum share the next one. They are answered in order, and
// readers get each of them once.
func TestPublicationsThatComeTogetherShareEntries(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "first")); err != nil {
		t.Fatal(err)
	}
	lead := leader(t, n.Swarm, url)
	before := len(lead.Layers().Owners.Log(n.Key(url)))
	const items = 30
	var of []*difference.Publication
	for i := range items {
		of = append(of, n.publisher.write(n.Swarm, fmt.Sprint(i)))
	}
	errs, order := pushAll(t, n.Swarm, n.publisherNode, of...)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(order) {
		t.Errorf("the answers came in this order: %v", order)
	}
	if entries := len(lead.Layers().Owners.Log(n.Key(url))) - before; entries > items/3 {
		t.Errorf("%d items took %d entries", items, entries)
	}
	n.Run(5 * time.Second)
	for i := range items {
		n.checkAll(t, fmt.Sprint(i), "All of "+fmt.Sprint(i)+", publisher")
	}
	for _, p := range n.Peers() {
		if st := p.Layers().Feeds.Stats(); st.Lacking > 0 || st.Unlike > 0 || st.Refused > 0 {
			t.Errorf("host %d: %+v", p.Index(), st)
		}
	}
	checkSwarm(t, n.Swarm)
}

// Other changes are appended after the publications that are waiting for their entry. The pin in such a change
// counts these publications, so no reader may consider them missing.
func TestPolledChangesFollowAcceptedPublications(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "first")); err != nil {
		t.Fatal(err)
	}
	lead := leader(t, n.Swarm, url)
	lead.SubscribeFeed(url)
	n.Run(5 * time.Second)
	var of []*difference.Publication
	for i := range 10 {
		of = append(of, n.publisher.write(n.Swarm, fmt.Sprint(i)))
	}
	held := false
	lead.Do(func() {
		feeds := lead.Layers().Feeds
		for _, p := range of {
			feeds.Publish(p.Raw, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		found := difference.Delta{Changes: []difference.Change{{Item: *newItem(t, "found")}}}
		if !feeds.Append(n.Key(url), found, nil, func(ok bool) { held = ok }) {
			t.Error("Append returned false")
		}
	})
	of = nil
	for i := range 10 {
		of = append(of, n.publisher.write(n.Swarm, fmt.Sprint("later ", i)))
	}
	says := n.publisher.metadata()
	says.Beat *= 2
	n.site.shows(says)
	doc, err := feed.Parse(n.site.body, "application/rss+xml")
	if err != nil {
		t.Fatal(err)
	}
	lead.Do(func() {
		for _, p := range of {
			lead.Layers().Feeds.Publish(p.Raw, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		lead.Layers().Feeds.Fetched(n.Key(url), url, doc, true)
	})
	n.Run(10 * time.Second)
	if !held {
		t.Error("the polled change was not committed")
	}
	n.checkAll(t, "found", "All of found, single")
	n.checkAll(t, "9", "All of 9, publisher")
	n.checkAll(t, "later 9", "All of later 9, publisher")
	for _, p := range n.Peers() {
		if st := p.Layers().Feeds.Stats(); st.Lacking > 0 || st.Unlike > 0 {
			t.Errorf("host %d: %d publications are missing from the log, %d logs differ from their hash", p.Index(), st.Lacking, st.Unlike)
		}
	}
}

// A publication that has overtaken the one before it is not refused, but sent again.
func TestAPublicationThatOvertookAnotherIsAccepted(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "first")); err != nil {
		t.Fatal(err)
	}
	one, two := n.publisher.write(n.Swarm, "one"), n.publisher.write(n.Swarm, "two")
	errs, _ := pushAll(t, n.Swarm, n.publisherNode, two, one)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	n.Run(5 * time.Second)
	n.checkAll(t, "two", "All of two, publisher")

	// If the one before it never comes, it is refused, so that its publisher looks for the missing one.
	_ = n.publisher.write(n.Swarm, "withheld")
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "after it")); !errors.Is(err, feedtree.ErrRefused) {
		t.Errorf("a publication whose predecessor is missing: %v", err)
	}
}

// A feed whose sequencer does not answer leaves room for publications of other feeds.
func TestAFeedWithoutAnswersDoesNotBlockOthers(t *testing.T) {
	n := newPublishedFeed(t)
	const other = "http://other.example/feed"
	n.Serve(other, n.site)
	n.publisherNode.SubscribeFeed(other)
	n.Run(30 * time.Second)
	var refused []error
	n.publisherNode.Do(func() {
		feeds := n.publisherNode.Layers().Feeds
		for i := range 65 {
			feeds.Publish(n.publisher.write(n.Swarm, fmt.Sprint(i)).Raw, func(err error) { refused = append(refused, err) })
		}
		if len(refused) != 1 || !errors.Is(refused[0], feedtree.ErrNotAccepted) {
			t.Errorf("errors of 65 publications at once: %v", refused)
		}
		p, err := difference.Publish(n.publisher.key, other, 1, [32]byte{}, n.Now(), newItem(t, "elsewhere"))
		if err != nil {
			t.Fatal(err)
		}
		feeds.Publish(p.Raw, func(err error) { refused = append(refused, err) })
	})
	if len(refused) != 1 {
		t.Errorf("errors with a publication of another feed: %v", refused)
	}
	n.Run(5 * time.Second)
	if last := refused[len(refused)-1]; len(refused) != 66 || last != nil {
		t.Errorf("%d publications were answered, the last with %v", len(refused), last)
	}
}
