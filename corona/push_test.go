package corona

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/corona/websub"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const hubAddress = "http://hub.example/"

// hubRequests returns the forms that were sent to the hub.
func (l *lab) hubRequests() (all []url.Values) {
	for _, a := range l.asked {
		if a.URL == hubAddress {
			form, _ := url.ParseQuery(a.Form)
			all = append(all, form)
		}
	}
	return all
}

func anOrder(change ...func(*coronapb.PushOrder)) *coronapb.PushOrder {
	const channel = "http://a.example/feed"
	k := key(channel)
	m := &coronapb.PushOrder{Key: k[:], Url: channel, Hub: hubAddress, Topic: "http://a.example/Feed"}
	for _, c := range change {
		c(m)
	}
	return m
}

// A member subscribes for channels and at hubs that have addresses, and only as long as it is told to.
func TestOrdersToSubscribe(t *testing.T) {
	for what, c := range map[string]struct {
		order     *coronapb.PushOrder
		callbacks string
		want      int
	}{
		"good":                           {anOrder(), "http://node.example/websub/", 1},
		"hubs do not reach the node":     {anOrder(), "", 0},
		"the key of another channel":     {anOrder(func(m *coronapb.PushOrder) { m.Url = "http://b.example/feed" }), "http://node.example/websub/", 0},
		"another spelling of an address": {anOrder(func(m *coronapb.PushOrder) { m.Url = "HTTP://a.example/feed"; k := key(m.Url); m.Key = k[:] }), "http://node.example/websub/", 0},
		"no hub":                         {anOrder(func(m *coronapb.PushOrder) { m.Hub = "" }), "http://node.example/websub/", 0},
		"a hub that is a file":           {anOrder(func(m *coronapb.PushOrder) { m.Hub = "file:///etc/passwd" }), "http://node.example/websub/", 0},
		"a topic that is none":           {anOrder(func(m *coronapb.PushOrder) { m.Topic = "x" }), "http://node.example/websub/", 0},
	} {
		l := newLab(t)
		p := l.poller(Config{Callbacks: c.callbacks})
		p.callbacks.onOrder("somebody", c.order)
		if l.run(time.Second, p); len(l.hubRequests()) != c.want {
			t.Errorf("%s: %d requests to the hub", what, len(l.hubRequests()))
		}
	}
}

func TestASubscriptionEndsWithoutOrders(t *testing.T) {
	l := newLab(t)
	l.origins[hubAddress] = says(env.Answer{Status: 202})
	p := l.poller(Config{Callbacks: "http://node.example/websub/"})
	for range 6 {
		p.callbacks.onOrder("somebody", anOrder())
		l.run(pushOrderPause, p)
	}
	if got := l.hubRequests(); got[len(got)-1].Get("hub.mode") != "subscribe" || p.HubSubscriptions() != 1 {
		t.Errorf("%v", got)
	}
	l.run(pushOrderLife, p)
	if got := l.hubRequests(); got[len(got)-1].Get("hub.mode") != "unsubscribe" || p.HubSubscriptions() != 0 {
		t.Errorf("%v", got)
	}
}

// However often orders come, a node remembers one for each channel, and none for which it has no room.
func TestOrdersTakeLittleMemory(t *testing.T) {
	l := newLab(t)
	p := l.poller(Config{Callbacks: "http://node.example/websub/"})
	noHub := anOrder(func(m *coronapb.PushOrder) { m.Hub = "" })
	for range 100 {
		p.callbacks.onOrder("somebody", anOrder())
		p.callbacks.onOrder("somebody", noHub)
		p.callbacks.onOrder("somebody", anOrder())
	}
	if orders, entries := len(p.callbacks.orders), p.callbacks.calendar.Len(); orders != 1 || entries != 1 {
		t.Errorf("%d orders, %d entries in the calendar", orders, entries)
	}
	topic := websub.Topic{Hub: hubAddress, URL: "http://a.example/Feed"}
	for i := 0; p.callbacks.subscriber.Want(fmt.Sprint(i), topic, false); i++ {
	}
	p.callbacks.onOrder("somebody", anOrder(func(m *coronapb.PushOrder) { m.Url = "http://b.example/feed"; k := key(m.Url); m.Key = k[:] }))
	if orders := len(p.callbacks.orders); orders != 1 {
		t.Errorf("%d orders, and one of them has no room", orders)
	}
}

// pushedLab is a sequencer whose chosen member is another one, with a channel that names a hub.
func pushedLab(t *testing.T) (l *lab, p *labNode, led *leaderState) {
	l = newLab(t)
	const channel = "http://a.example/feed"
	l.origins[channel] = serves(rss("A", `<a:link xmlns:a="http://www.w3.org/2005/Atom" rel="hub" href="`+hubAddress+`"/>`, "one"))
	p = l.poller(Config{ExemptPrivate: true})
	p.lead(channel, nil)
	l.run(time.Minute, p)
	led = p.leaders[key(channel)]
	if led.push.topic != (websub.Topic{Hub: hubAddress, URL: channel}) {
		t.Fatalf("the topic is %+v", led.push.topic)
	}
	led.push.member, led.push.answeredAt = "member", l.now
	return l, p, led
}

// told has the chosen member say something.
func told(p *labNode, led *leaderState, kind coronapb.PushStatus_Kind) {
	p.sequencer.pushes.onStatus(led, led.push.member, &coronapb.PushStatus{Kind: kind, Detail: "because"})
}

// push has the sequencer take a notification with an item.
func push(p *labNode, led *leaderState, item string) {
	f, err := feed.Parse([]byte(rss("A", "", item)), "")
	if err != nil {
		panic(err)
	}
	p.sequencer.accept(led, env.Peer{ID: led.push.member}, observation{f: f, handedOver: true, pushed: true}, 7, p.l.now)
}

func TestAHubIsTrustedWhenItHasDelivered(t *testing.T) {
	l, p, led := pushedLab(t)
	told(p, led, coronapb.PushStatus_SUBSCRIBED)
	if led.push.pushed() || led.interval != 30*time.Minute {
		t.Error("a hub is trusted that has delivered nothing")
	}
	rate := led.updateRate
	push(p, led, "one")
	if led.push.pushed() {
		t.Error("a hub is trusted that has delivered what polls had found")
	}
	p.full = true
	push(p, led, "two")
	if led.push.pushed() || led.updateRate != rate {
		t.Error("an item counts that the log has not taken")
	}
	p.full = false
	push(p, led, "two")
	last := p.said[len(p.said)-1]
	if !led.push.pushed() || led.interval != pushedInterval || led.pollers != 1 || last.Hub != "hub.example" || titles(p.logs[led.key].items) != "one two" {
		t.Errorf("pushed %v, interval %v, %d pollers, by %q", led.push.pushed(), led.interval, led.pollers, last.Hub)
	}
	for _, kind := range []coronapb.PushStatus_Kind{coronapb.PushStatus_DENIED, coronapb.PushStatus_FAILED} {
		told(p, led, kind)
		if last := p.said[len(p.said)-1]; last.Hub != "" || last.HubFault != "because" || led.interval != 30*time.Minute {
			t.Errorf("%v: interval %v, by %q, fault %q", kind, led.interval, last.Hub, last.HubFault)
		}
		told(p, led, coronapb.PushStatus_SUBSCRIBED)
		if last := p.said[len(p.said)-1]; last.Hub != "hub.example" || last.HubFault != "" {
			t.Errorf("after %v: by %q, fault %q", kind, last.Hub, last.HubFault)
		}
	}
	p.sequencer.pushes.onStatus(led, "another", &coronapb.PushStatus{Kind: coronapb.PushStatus_DENIED})
	if !led.push.pushed() {
		t.Error("another member's status counts")
	}
	l.run(time.Second, p)
}

// The hint of a member is an answer, too, also if it was silent for so long that another member would be chosen now.
func TestAHintIsAnAnswer(t *testing.T) {
	l, p, led := pushedLab(t)
	led.push.answeredAt = l.now.Add(-pushPatience)
	p.sequencer.pushes.onStatus(led, "member", &coronapb.PushStatus{Kind: coronapb.PushStatus_SUBSCRIBED, Hint: true})
	if led.push.member != "member" || led.push.status != coronapb.PushStatus_SUBSCRIBED || !led.push.hintedAt.Equal(l.now) {
		t.Errorf("%+v", led.push)
	}
}

// An item that a poll finds, and that the hub does not deliver within a minute, ends the trust. If it delivers the item then,
// the poll was only faster.
func TestAHubMustDeliverWhatPollsFind(t *testing.T) {
	for what, late := range map[string]time.Duration{"at once": time.Second, "in time": pushGrace - time.Second, "too late": pushGrace + time.Second} {
		_, p, led := pushedLab(t)
		ps, now := p.sequencer.pushes, p.l.now
		told(p, led, coronapb.PushStatus_SUBSCRIBED)
		push(p, led, "two")
		found := difference.Delta{Changes: []difference.Change{{Item: feed.Item{ID: feed.ID{9}}}}}
		led.push.since = now.Add(-time.Hour)
		ps.polled(led, found, false, now)
		ps.watch(led, now.Add(min(late, pushGrace-1)))
		if !led.push.pushed() {
			t.Errorf("%s: not trusted before a minute has passed", what)
		}
		if late < pushGrace {
			ps.delivered(led, difference.Delta{}, now.Add(late))
		}
		led.fetching = 1 // no look at the origin
		ps.watch(led, now.Add(2*pushGrace))
		if led.push.pushed() != (late < pushGrace) {
			t.Errorf("%s: trusted %v, %q", what, led.push.pushed(), led.push.fault)
		}
	}
}

// While no member is subscribed, the hub cannot deliver. Items that polls find just after that do not count against it.
func TestWhatWasPushedToNobodyIsNotMissed(t *testing.T) {
	_, p, led := pushedLab(t)
	told(p, led, coronapb.PushStatus_SUBSCRIBED)
	push(p, led, "two")
	told(p, led, coronapb.PushStatus_FAILED)
	found := difference.Delta{Changes: []difference.Change{{Item: feed.Item{ID: feed.ID{9}}}}}
	p.sequencer.pushes.polled(led, found, true, p.l.now)
	told(p, led, coronapb.PushStatus_SUBSCRIBED)
	p.sequencer.pushes.polled(led, found, true, p.l.now.Add(time.Second))
	if led.push.missedAt != (time.Time{}) || !led.push.pushed() {
		t.Errorf("%+v", led.push)
	}
}

// An item and an edit that a hub has sent, and that the document does not have, were taken back by the origin. Its "not
// modified" for the document before does not hide that, also when the sequencer changes meanwhile.
func TestWhatAHubHasSentIsTakenBack(t *testing.T) {
	for _, handed := range []bool{false, true} {
		v := newChannelNetwork(t, 3, rss("A", "", "three", "one"))
		v.aside = false
		v.hand(v.pollers[0])
		v.run(time.Hour)
		f, err := feed.Parse([]byte(edited(rss("A", "", "three", "two", "one"), "one")), "")
		if err != nil {
			t.Fatal(err)
		}
		sq := v.leader.sequencer
		sq.poller.poll(sq.poller.assignments.Get(v.key), v.leader.Now()) // its answer comes later
		sq.accept(sq.leaders[v.key], env.Peer{}, observation{f: f, handedOver: true, pushed: true}, 0, v.leader.Now())
		if got := titles(v.items[2:]); got != "two one" || v.latest() != "edit of one" {
			t.Fatalf("the log gains %q, and ends with %q", got, v.latest())
		}
		if handed {
			v.hand(v.pollers[1])
		}
		v.run(6 * time.Hour)
		v.wantWithdrawals("after hours", 1, 0)
		if v.latest() != "of one" || len(v.items) != 5 {
			t.Errorf("handed over %v: the log ends with %q, after %d items", handed, v.latest(), len(v.items))
		}
	}
}

// A channel whose hub delivers is polled once in a day and a half, and one whose hub is quiet once in six hours. What the origin takes back
// is found all the same.
func TestAHubThatDeliversSparesPolls(t *testing.T) {
	doc := rss("A", "", "two", "one")
	v := newChannelNetwork(t, 3, doc)
	v.aside = false
	v.hand(v.pollers[0])
	v.hand(v.nearest(v.key)[0]) // it polls when there is one poller
	v.run(time.Hour)
	sq := v.leader.sequencer
	l := sq.leaders[v.key]
	l.push = &pushing{member: "member", trusted: true, status: coronapb.PushStatus_SUBSCRIBED, heardAt: v.now, answeredAt: v.now}
	sq.pushes.changed(l, v.now)
	v.run(time.Minute)
	deliver := func(doc string) {
		f, err := feed.Parse([]byte(doc), "")
		if err != nil {
			t.Fatal(err)
		}
		sq.accept(l, env.Peer{ID: "member"}, observation{f: f, handedOver: true, pushed: true}, 0, v.leader.Now())
	}
	polls := func(days int, each func(hour int)) (n int) {
		v.origin = func(_ *member, r env.Request) env.Answer {
			n++
			return serves(doc)(r)
		}
		for hour := range 24 * days {
			each(hour)
			l.push.trusted = true // the hub's items are not later than others'
			v.run(time.Hour)
		}
		return n
	}
	quiet := polls(2, func(int) {})
	publish := func(hour int) {
		doc = strings.Replace(doc, "<item>", fmt.Sprintf("<item><guid>%d</guid><title>%d</title></item><item>", hour, len(doc)), 1)
		deliver(doc)
	}
	busy := polls(4, publish)
	if quiet < 7 || busy < 2 || busy > 4 {
		t.Errorf("%d polls in two days of a quiet hub, and %d in four days of a busy one", quiet, busy)
	}
	deliver(edited(doc, "one"))
	polls(4, func(hour int) { publish(1000 + hour) })
	var last string
	for _, it := range v.items {
		if m, err := it.Meaning(""); err == nil && m.Title == "one" {
			last = m.Summary
		}
	}
	if last != "of one" {
		t.Errorf("the log has %q", last)
	}
}

func TestAgesOfItems(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		dates []time.Time
		want  time.Duration
		ok    bool
	}{
		{nil, 0, false},
		{[]time.Time{{}}, 0, false},
		{[]time.Time{before(time.Minute), before(time.Hour)}, time.Minute, true},
		{[]time.Time{{}, before(time.Hour)}, time.Hour, true},
		{[]time.Time{before(-time.Minute)}, 0, false}, // a clock that is ahead
		{[]time.Time{before(3 * time.Hour)}, 0, false},
	} {
		if got, ok := ageOf(c.dates, now, 2*time.Hour); got != c.want || ok != c.ok {
			t.Errorf("%v: %v, %v", c.dates, got, ok)
		}
	}
}

// Without a subscription, a proven notification of another member is a report like any other, and says nothing about the hub.
func TestOnlyTheChosenMemberSpeaksForTheHub(t *testing.T) {
	_, p, led := pushedLab(t)
	told(p, led, coronapb.PushStatus_SUBSCRIBED)
	f, err := feed.Parse([]byte(rss("A", "", "two")), "")
	if err != nil {
		t.Fatal(err)
	}
	p.sequencer.accept(led, env.Peer{ID: "another"}, observation{f: f, handedOver: true, pushed: true}, 7, p.l.now)
	if led.push.pushed() || titles(p.logs[led.key].items) != "one two" {
		t.Errorf("trusted %v, the log has %q", led.push.pushed(), titles(p.logs[led.key].items))
	}
}

// The addresses in a note are checked: any owner may have written it.
func TestNotesOfHubsAreChecked(t *testing.T) {
	good := &coronapb.Push{Hub: hubAddress, Topic: "http://a.example/feed", Member: []byte("m"), Trusted: true, HeardMs: 5}
	for what, change := range map[string]func(m *coronapb.Push){
		"good":   func(*coronapb.Push) {},
		"hub":    func(m *coronapb.Push) { m.Hub = "ftp://x" },
		"topic":  func(m *coronapb.Push) { m.Topic = strings.Repeat("x", maxURL) },
		"member": func(m *coronapb.Push) { m.Member = make([]byte, maxMember+1) },
		"time":   func(m *coronapb.Push) { m.HeardMs = 1 << 63 },
	} {
		m := &coronapb.Push{Hub: good.Hub, Topic: good.Topic, Member: good.Member, Trusted: good.Trusted, HeardMs: good.HeardMs}
		change(m)
		if got := pushingFrom(m); (got != nil) != (what == "good") {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := pushingFrom(nil); got != nil {
		t.Errorf("%+v", got)
	}
}
