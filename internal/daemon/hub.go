package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"tidings/internal/env"
	"tidings/internal/fetch"
	"tidings/internal/news"
	"tidings/internal/store"
	"tidings/proxy"
)

// hub is the WebSub hub of the feeds that this node serves (W3C WebSub, 23 January 2018). Its subscribers are programs that
// read feeds from this node. The courier brings them the whole document when something in it is new, and remembers how far
// each has come.
type hub struct {
	courier *news.Courier
	disk    *store.Disk
	get     func(ctx context.Context, address string) (proxy.Page, error) // what a reader gets at an address of this node
	follows func(ctx context.Context, url, query string) bool             // the node follows a feed, or has a search
	shows   func(context.Context, *news.Event) (bool, error)              // readers see the item of an event
	log     *slog.Logger
	asked   chan proxy.HubRequest

	mu   sync.Mutex               // guards the fields below
	byID map[string]hubSubscriber // by hubID
}

// A hubSubscriber is stored under hubPrefix and its id.
type hubSubscriber struct {
	Topic    string            `json:"topic"`
	URL      string            `json:"url,omitempty"`
	Query    string            `json:"query,omitempty"`
	Callback string            `json:"callback"`
	Secret   string            `json:"secret,omitempty"`
	From     netip.Addr        `json:"from,omitzero"`
	Until    time.Time         `json:"until"`
	sent     [sha256.Size]byte // hash of the last document that it has taken since it subscribed or renewed; not stored
}

const (
	hubPrefix = "w" // in the store of news, which has other records under other letters; then the id

	// maxHubSubscribers bounds the subscribers. Each costs one request for each change of its feed.
	maxHubSubscribers = 1000
	// maxHubAsked bounds the requests that wait for their confirmation. hubConfirmations are made at the same time.
	maxHubAsked      = 100
	hubConfirmations = 4
	// minHubLease and maxHubLease bound leases, and defaultHubLease is that of a subscriber that names none, as the
	// specification proposes.
	minHubLease     = time.Minute
	defaultHubLease = 10 * 24 * time.Hour
	maxHubLease     = 30 * 24 * time.Hour
	// hubPause is the shortest time between two deliveries to a subscriber: all that is new meanwhile is in the second.
	hubPause = time.Second
	// hubPatience is how long the hub waits for an item that the document lacks. It may have left the document for good.
	hubPatience = 10 * time.Minute
	// hubCheck is the time between two checks for leases that have ended.
	hubCheck = 15 * time.Second
)

// errNotShown says that a document lacks the item of which a subscriber is to be told.
var errNotShown = errors.New("the document does not have the new items yet")

func newHub(courier *news.Courier, disk *store.Disk, log *slog.Logger) *hub {
	return &hub{courier: courier, disk: disk, log: log, asked: make(chan proxy.HubRequest, maxHubAsked), byID: map[string]hubSubscriber{}}
}

// load continues the subscriptions in the store.
func (h *hub) load() error {
	err := h.disk.Range([]byte(hubPrefix), func(key, value []byte) bool {
		var s hubSubscriber
		if json.Unmarshal(value, &s) == nil {
			h.byID[string(key[len(hubPrefix):])] = s
		}
		return true
	})
	if err != nil && !errors.Is(err, env.ErrDamaged) { // a damaged subscription is not renewed, and made anew
		return fmt.Errorf("subscribers of the hub: %w", err)
	}
	for id := range h.byID {
		if err := h.courier.Add(h.target(id)); err != nil {
			return err
		}
	}
	return nil
}

// hubID identifies a subscription: there is one for each topic and callback.
func hubID(topic, callback string) string {
	sum := sha256.Sum256([]byte(topic + "\x00" + callback))
	return hex.EncodeToString(sum[:16])
}

// Ask queues a request; see proxy.Hub.
func (h *hub) Ask(q proxy.HubRequest) error {
	h.mu.Lock()
	_, known := h.byID[hubID(q.Topic, q.Callback)]
	full := len(h.byID) >= maxHubSubscribers
	h.mu.Unlock()
	if q.Subscribe && !known && full {
		return fmt.Errorf("%w: the hub has %d subscribers", proxy.ErrFull, maxHubSubscribers)
	}
	select {
	case h.asked <- q:
		return nil
	default:
		return fmt.Errorf("%w: %d subscribers wait for the hub to confirm their requests: try again in a minute", proxy.ErrFull, maxHubAsked)
	}
}

// run confirms requests and ends leases until ctx ends.
func (h *hub) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for range hubConfirmations {
		running.Go(func() {
			for {
				select {
				case q := <-h.asked:
					h.confirm(ctx, q)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	check := time.NewTicker(hubCheck)
	defer check.Stop()
	for {
		select {
		case now := <-check.C:
			h.check(ctx, now)
		case <-ctx.Done():
			return
		}
	}
}

// check ends the subscriptions whose lease has ended, and those to feeds that the node does not follow any more.
func (h *hub) check(ctx context.Context, now time.Time) {
	h.mu.Lock()
	all := maps.Clone(h.byID)
	h.mu.Unlock()
	for id, s := range all {
		if s.Until.After(now) && !h.follows(ctx, s.URL, s.Query) && ctx.Err() == nil {
			h.deny(ctx, id, s)
			s.Until = now
		}
		if s.Until.After(now) {
			continue
		}
		if err := h.end(id); err != nil {
			h.log.Error("subscription to the hub cannot be ended", "topic", s.Topic, "err", err)
		}
	}
}

// confirm asks a subscriber whether it has made a request (section 5.3), and carries it out if so.
func (h *hub) confirm(ctx context.Context, q proxy.HubRequest) {
	id := hubID(q.Topic, q.Callback)
	lease := min(max(q.Lease, minHubLease), maxHubLease)
	if q.Lease == 0 {
		lease = defaultHubLease
	}
	challenge := rand.Text()
	ask := url.Values{"hub.mode": {"unsubscribe"}, "hub.topic": {q.Topic}, "hub.challenge": {challenge}}
	if q.Subscribe {
		ask.Set("hub.mode", "subscribe")
		ask.Set("hub.lease_seconds", strconv.FormatInt(int64(lease/time.Second), 10))
	}
	answer, err := h.call(ctx, q.From, http.MethodGet, withQuery(q.Callback, ask), nil, nil)
	if err == nil && (answer.status < 200 || answer.status > 299 || string(answer.body) != challenge) {
		err = fmt.Errorf("the callback answered with status %d, and not with the challenge", answer.status)
	}
	if err != nil {
		h.log.Debug("subscriber did not confirm its request to the hub", "topic", q.Topic, "callback", q.Callback, "err", err)
		return
	}
	if !q.Subscribe {
		err = h.end(id)
	} else {
		err = h.begin(id, hubSubscriber{Topic: q.Topic, URL: q.URL, Query: q.Query, Callback: q.Callback, Secret: q.Secret, From: q.From, Until: time.Now().Add(lease).Truncate(time.Second)})
	}
	if err != nil {
		h.log.Error("request of a subscriber to the hub failed", "topic", q.Topic, "err", err)
	}
}

// begin makes a subscription, or renews it.
func (h *hub) begin(id string, s hubSubscriber) error {
	value, err := json.Marshal(s)
	if err == nil {
		err = commit(h.disk, env.Op{Key: []byte(hubPrefix + id), Value: value})
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	_, known := h.byID[id]
	h.byID[id] = s
	h.mu.Unlock()
	if known {
		return nil
	}
	return h.courier.Add(h.target(id))
}

// end ends a subscription.
func (h *hub) end(id string) error {
	h.mu.Lock()
	_, known := h.byID[id]
	delete(h.byID, id)
	h.mu.Unlock()
	if !known {
		return nil
	}
	return errors.Join(commit(h.disk, env.Op{Key: []byte(hubPrefix + id)}), h.courier.Remove(targetID(id)))
}

// commit makes an operation durable.
func commit(disk *store.Disk, op env.Op) error {
	done := make(chan error, 1)
	disk.Commit([]env.Op{op}, func(err error) { done <- err })
	return <-done
}

func targetID(id string) string { return "websub/" + id }

// target is the courier's target of a subscription.
func (h *hub) target(id string) news.Target {
	return news.Target{
		ID: targetID(id), Batch: 1000, Pause: hubPause,
		Wants: func(e *news.Event) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			s, ok := h.byID[id]
			return ok && e.Health == nil && e.URL == s.URL && e.Query == s.Query
		},
		Send: func(ctx context.Context, events []news.Event) error { return h.deliver(ctx, id, events) },
	}
}

// deliver sends a subscriber its topic as it is now (section 7).
func (h *hub) deliver(ctx context.Context, id string, events []news.Event) error {
	h.mu.Lock()
	s, ok := h.byID[id]
	h.mu.Unlock()
	if !ok {
		return nil
	}
	for i := range events {
		e := &events[i]
		if shown, err := h.shows(ctx, e); err != nil || !shown && time.Since(e.Time) < hubPatience {
			return cmp.Or(err, errNotShown)
		}
	}
	page, err := h.get(ctx, s.Topic)
	switch {
	case err != nil:
		return err
	case page.Status == http.StatusNotFound || page.Status == http.StatusGone:
		h.deny(ctx, id, s)
		return nil
	case page.Status != http.StatusOK:
		return fmt.Errorf("the feed cannot be read now: status %d", page.Status)
	}
	sum := sha256.Sum256(page.Body)
	if s.sent == sum { // a delivery that was late has brought this item, too
		return nil
	}
	header := http.Header{"Content-Type": {page.MediaType}, "Link": {page.Links}}
	if s.Secret != "" {
		mac := hmac.New(sha256.New, []byte(s.Secret))
		mac.Write(page.Body)
		header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	answer, err := h.call(ctx, s.From, http.MethodPost, s.Callback, header, page.Body)
	switch {
	case err != nil:
		return err
	case answer.status == http.StatusGone:
		h.log.Info("subscriber has ended its subscription to the hub", "topic", s.Topic, "callback", s.Callback)
		h.expire(id)
	case answer.status < 200 || answer.status > 299:
		err = fmt.Errorf("deliver %s to %s: status %d", s.Topic, s.Callback, answer.status)
		if answer.retryAfter > 0 {
			err = &news.RetryAfter{Reason: err, Wait: answer.retryAfter}
		}
	default:
		h.mu.Lock()
		if s, ok := h.byID[id]; ok {
			s.sent = sum
			h.byID[id] = s
		}
		h.mu.Unlock()
	}
	return err
}

// deny tells a subscriber that it gets nothing more (section 5.2), and ends its subscription.
func (h *hub) deny(ctx context.Context, id string, s hubSubscriber) {
	tell := url.Values{"hub.mode": {"denied"}, "hub.topic": {s.Topic}, "hub.reason": {"the node does not follow this feed any more"}}
	if _, err := h.call(ctx, s.From, http.MethodGet, withQuery(s.Callback, tell), nil, nil); err != nil {
		h.log.Debug("subscriber cannot be told that its subscription to the hub has ended", "callback", s.Callback, "err", err)
	}
	h.expire(id)
}

// expire lets the next check end a subscription. A delivery cannot end it, because the courier would wait for the delivery.
func (h *hub) expire(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.byID[id]; ok {
		s.Until = time.Time{}
		h.byID[id] = s
	}
}

// withQuery adds parameters to an address, which may have some.
func withQuery(address string, add url.Values) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // the server has parsed it
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += add.Encode()
	return u.String()
}

// A hubAnswer is the answer of a callback.
type hubAnswer struct {
	status     int
	body       []byte // at most maxHubAnswer bytes
	retryAfter time.Duration
}

// maxHubAnswer bounds what is read of the answer of a callback, in bytes. A challenge is shorter.
const maxHubAnswer = 1 << 10

// call sends a request to a callback. from is the address of the subscriber, which may be on a private network.
func (h *hub) call(ctx context.Context, from netip.Addr, method, address string, header http.Header, body []byte) (a hubAnswer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if header != nil {
		r.Header = header
	}
	client := fetch.Callbacks(func(to netip.Addr) bool { return from.IsLoopback() || from.IsValid() && to == from })
	got, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = got.Body.Close() }()
	a.status = got.StatusCode
	if seconds, err := strconv.Atoi(got.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.retryAfter = time.Duration(min(seconds, int(maxHubLease/time.Second))) * time.Second
	}
	a.body, err = io.ReadAll(io.LimitReader(got.Body, maxHubAnswer))
	return a, err
}
