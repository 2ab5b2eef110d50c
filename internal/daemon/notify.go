package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/cobra/query"
	"tidings/internal/locale"
	"tidings/internal/news"
	"tidings/internal/notify"
	"tidings/internal/store"
	"tidings/proxy"
)

// notifications tells targets what is new. It keeps them in a file that only the node's user can read, because it has
// passwords. How far each has come is in the journal's store.
type notifications struct {
	path    string
	courier *news.Courier
	sender  *notify.Sender
	private *privateFeeds
	subs    *subscriptions
	watches *watches
	log     *slog.Logger

	mu      sync.Mutex // guards the fields below, and is held while the file is written
	targets []*openTarget
}

// An openTarget is a target at work. The mutex of notifications guards its record.
type openTarget struct {
	targetRecord
	*notify.Target
}

// load reads the file of an earlier run, and begins with its targets.
func (n *notifications) load() error {
	var records []*targetRecord
	err := readOwnFile(n.path, "the targets of notifications", n.log, func(b []byte) (err error) {
		records, err = decodeTargets(b)
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range records {
		t, err := n.sender.Open(r.To, r.Secret)
		if err != nil { // such as http, after private addresses were allowed
			n.log.Warn("messages cannot be sent to a target", "target", r.ID, "err", err)
			t = unusable(err)
		}
		if err := n.begin(&openTarget{*r, t}); err != nil {
			return err
		}
	}
	return nil
}

// unusable returns a target for an address that cannot be used now.
func unusable(why error) *notify.Target {
	return &notify.Target{Kind: "unusable", Shown: "…", Batch: 1, Send: func(context.Context, []notify.Message) error {
		return &notify.Failure{Text: why.Error()}
	}}
}

// begin begins deliveries to a target. The caller holds the mutex, or nothing runs yet.
func (n *notifications) begin(t *openTarget) error {
	times, err := parseSchedule(t.QuietHours, t.Digest)
	if err != nil {
		return err
	}
	pause := t.Pause
	if t.PauseS > 0 {
		pause = time.Duration(t.PauseS) * time.Second
	}
	err = n.courier.Add(news.Target{
		ID: t.ID, Batch: t.Batch, Pause: pause,
		Wants: func(e *news.Event) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return t.Ended.IsZero() && t.wants(e)
		},
		HeldUntil: func(now, oldest time.Time) time.Time { return times.heldUntil(now.Local(), oldest) },
		Send:      func(ctx context.Context, events []news.Event) error { return n.send(ctx, t, events) },
	})
	if err == nil {
		n.targets = append(n.targets, t)
	}
	return err
}

// send sends events to a target.
func (n *notifications) send(ctx context.Context, t *openTarget, events []news.Event) error {
	messages := make([]notify.Message, len(events))
	for i := range events {
		messages[i] = messageOf(t.ID, &events[i])
	}
	err := t.Send(ctx, messages)
	f, ok := errors.AsType[*notify.Failure](err)
	switch {
	case !ok:
		return err
	case f.Gone:
		n.end(t)
	}
	switch {
	case f.Final:
		return &news.Refusal{Reason: err}
	case f.Wait > 0:
		return &news.RetryAfter{Reason: err, Wait: f.Wait}
	}
	return err
}

// end notes that a target takes no more messages.
func (n *notifications) end(t *openTarget) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t.Ended = time.Now().UTC()
	if err := n.save(n.targets); err != nil {
		n.log.Error("the end of a target cannot be stored", "target", t.ID, "err", err)
	}
}

// save writes the file. The caller holds the mutex.
func (n *notifications) save(targets []*openTarget) error {
	records := make([]*targetRecord, len(targets))
	for i, t := range targets {
		records[i] = &t.targetRecord
	}
	b, err := encodeTargets(records)
	if err == nil {
		err = store.WriteFile(n.path, b)
	}
	if err != nil {
		return fmt.Errorf("store the targets of notifications: %w", err)
	}
	return nil
}

// wants reports whether a target is told of a feed or a search.
func (n *notifications) wants(url, query string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.targets, func(t *openTarget) bool {
		return url != "" && slices.Contains(t.Feeds, url) || query != "" && slices.Contains(t.Queries, query)
	})
}

// find returns the target with an id. The caller holds the mutex.
func (n *notifications) find(id string) (*openTarget, error) {
	for _, t := range n.targets {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, kindError{proxy.ErrNoTarget, fmt.Errorf("there is no target %q: tidings notify list shows yours", id)}
}

// Targets returns all targets; see proxy.Notifications.
func (n *notifications) Targets() (all []proxy.NotifyTarget) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.targets {
		all = append(all, n.shown(t))
	}
	return all
}

// shown returns a target without its secrets. The caller holds the mutex.
func (n *notifications) shown(t *openTarget) proxy.NotifyTarget {
	s, _ := n.courier.State(t.ID)
	return proxy.NotifyTarget{
		ID: t.ID, To: t.Shown, Kind: t.Kind, Feeds: t.Feeds, Queries: t.Queries, Health: t.Health,
		QuietHours: t.QuietHours, Digest: t.Digest, PauseS: t.PauseS, Added: proxy.OptionalTime(t.Added), Ended: proxy.OptionalTime(t.Ended),
		Sent: s.Sent, LastSent: proxy.OptionalTime(s.LastSent), Failing: proxy.OptionalTime(s.Since), Error: s.Error, Next: proxy.OptionalTime(s.Next),
		Dead: s.Dead, Missed: s.Missed,
	}
}

// AddTarget adds a target; see proxy.Notifications.
func (n *notifications) AddTarget(ctx context.Context, q proxy.NotifyTarget) (proxy.NotifyTarget, error) {
	refuse := func(err error) (proxy.NotifyTarget, error) { return q, kindError{proxy.ErrTarget, err} }
	if err := checkTarget(q); err != nil {
		return refuse(err)
	}
	r := targetRecord{
		ID: strings.ToLower(rand.Text()[:10]), To: strings.TrimSpace(q.To), Secret: notify.NewSecret(), Health: q.Health,
		QuietHours: q.QuietHours, Digest: q.Digest, PauseS: q.PauseS, Added: time.Now().UTC(),
	}
	opened, err := n.sender.Open(r.To, r.Secret)
	if err != nil {
		return refuse(err)
	}
	if opened.Batch == 1 && q.Digest != "" {
		return refuse(errors.New("a webhook gets each event as it comes: leave the digest out, or give the address of a service or of e-mail"))
	}
	if r.Feeds, err = n.followed(q.Feeds); err != nil {
		return q, err
	}
	if r.Queries, err = n.watched(ctx, q.Queries); err != nil {
		return q, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.targets) >= maxTargets {
		return q, kindError{proxy.ErrFull, fmt.Errorf("the node has %d targets, and keeps no more: remove one with tidings notify remove", len(n.targets))}
	}
	t := &openTarget{r, opened}
	if err := n.save(append(slices.Clone(n.targets), t)); err != nil {
		return q, err
	}
	if err := n.begin(t); err != nil {
		return q, errors.Join(err, n.save(n.targets))
	}
	shown := n.shown(t)
	if t.Kind == notify.Webhook {
		shown.Secret = r.Secret
	}
	return shown, nil
}

// followed returns the addresses of feeds that the node follows, each once.
func (n *notifications) followed(urls []string) (feeds []string, err error) {
	for _, url := range urls {
		_, shared := n.subs.version(url)
		if _, private := n.private.peek(url); !shared && !private {
			return nil, kindError{proxy.ErrNoSubscription, fmt.Errorf("this node does not follow %s: subscribe first, with tidings subscribe %s", url, proxy.ShellWord(url))}
		}
		if !slices.Contains(feeds, url) {
			feeds = append(feeds, url)
		}
	}
	return feeds, nil
}

// watched returns the queries of searches as the journal names them, each once.
func (n *notifications) watched(ctx context.Context, texts []string) (queries []string, err error) {
	for _, text := range texts {
		if _, err := query.Canonical(text); err != nil {
			return nil, kindError{proxy.ErrTarget, fmt.Errorf("the search %q: %w", text, err)}
		}
		same, err := n.watches.SameWatches(ctx, text)
		if err != nil {
			return nil, err
		}
		if len(same) == 0 {
			return nil, kindError{proxy.ErrNoSubscription, fmt.Errorf("this node has no search for %s: begin it first, with tidings watch %s", text, proxy.ShellWord(text))}
		}
		if !slices.Contains(queries, same[0].Query) {
			queries = append(queries, same[0].Query)
		}
	}
	return queries, nil
}

// RemoveTarget ends a target; see proxy.Notifications.
func (n *notifications) RemoveTarget(id string) error {
	n.mu.Lock()
	t, err := n.find(id)
	if err == nil {
		rest := slices.DeleteFunc(slices.Clone(n.targets), func(o *openTarget) bool { return o == t })
		if err = n.save(rest); err == nil {
			n.targets = rest
		}
	}
	n.mu.Unlock() // the courier may be calling Wants
	if err != nil {
		return err
	}
	return n.courier.Remove(id)
}

// TestTarget sends a message to a target; see proxy.Notifications.
func (n *notifications) TestTarget(ctx context.Context, id string) error {
	n.mu.Lock()
	t, err := n.find(id)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	e, err := testEvent(time.Now())
	if err != nil {
		return err
	}
	if err := t.Send(ctx, []notify.Message{messageOf(id, &e)}); err != nil {
		return kindError{proxy.ErrUnreachable, fmt.Errorf("the target %s, %s: %w", id, t.Shown, err)}
	}
	return nil
}

// DeadLetters returns what a target did not take; see proxy.Notifications.
func (n *notifications) DeadLetters(id string) ([]proxy.DeadLetter, error) {
	n.mu.Lock()
	_, err := n.find(id)
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	letters, err := n.courier.DeadLetters(id)
	all := make([]proxy.DeadLetter, len(letters))
	for i, l := range letters {
		all[i] = proxy.DeadLetter(l)
	}
	return all, err
}

// failingTarget is how long a target fails before the doctor says so. Shorter outages end by themselves.
const failingTarget = 24 * time.Hour

// findings returns what the doctor says about the targets.
func (n *notifications) findings(now time.Time) (findings []proxy.Finding) {
	add := func(what, do locale.Text) {
		findings = append(findings, proxy.Finding{Level: levelNote, What: what, Do: do})
	}
	if _, err := os.Stat(n.path + damagedFileEnd); err == nil {
		add(locale.Say("the file with the targets of notifications was damaged and set aside: %s", n.path+damagedFileEnd), locale.Say("add the targets again with tidings notify add, and then delete the damaged file"))
	}
	for _, t := range n.Targets() {
		name := locale.Say("the target %s (%s) of notifications", t.ID, t.To)
		remove := "tidings notify remove " + t.ID
		switch {
		case t.Ended != nil:
			add(locale.Say("%s said at %s that it takes no more messages (410 Gone)", name, t.Ended.Format(time.DateTime)), locale.Say("if that is a mistake, add it again; then, or if it is not: %s", remove))
		case t.Failing != nil && now.Sub(*t.Failing) >= failingTarget:
			add(locale.Say("%s has taken nothing since %s UTC: %s", name, t.Failing.Format(time.DateTime), t.Error), locale.Say("repair the receiver and try it with tidings notify test %s; the node keeps news for it for some days; or %s", t.ID, remove))
		}
		if t.Dead >= news.MaxDeadLetters {
			add(locale.Say("%s has not taken %d events, and that is as many as the node keeps: older ones are gone", name, t.Dead), locale.Say("see why with tidings notify dead %s, repair the receiver, and add it again to begin with an empty list; or %s", t.ID, remove))
		}
		if t.Missed {
			add(locale.Say("%s has missed events, because it was away or held back for longer than the node keeps them", name),
				locale.Say("read the feeds themselves for what it has missed; to clear this note, remove the target and add it again"))
		}
	}
	return findings
}
