package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tidings/internal/env"
	"tidings/internal/news"
	"tidings/internal/store"
	"tidings/internal/xmpp"
	"tidings/proxy"
)

// messenger lets people follow feeds and searches by messages, as Corona does (section 3.5): a contact writes "subscribe URL",
// and is told what is new. It keeps the contacts in a file; how far each has come is in the journal's store.
//
// News waits while a contact is not available, and is delivered when the contact comes: the server of the messenger need not
// keep it. More than maxSingles pieces of news that have waited are told as one digest.
type messenger struct {
	path    string
	client  *xmpp.Client
	courier *news.Courier
	journal *news.Journal
	disk    *store.Disk // of the journal
	subs    *subscriptions
	watches *watches
	wanted  func(url, query string) bool // notifications are sent about it
	server  *proxy.Server
	self    string // URL of the server
	log     *slog.Logger
	heard   chan heardMessage

	mu       sync.Mutex // guards the fields below, and is held while the file is written
	contacts map[string]*contact
	searches []uint32 // those that were begun for contacts, and end with the last of them
	talks    map[string]*talk
}

// A heardMessage is a message of a contact.
type heardMessage struct{ from, text string }

// A contactRecord is what the file says about a contact.
type contactRecord struct {
	ID      string // of its target
	JID     string
	Paused  bool
	Feeds   []string
	Queries []string
	Added   time.Time
}

// A contact is a person who is told what is new. The mutex of the messenger guards its record; its target alone uses the
// progress.
type contact struct {
	contactRecord
	progress contactProgress
}

// A talk bounds the commands of an account.
type talk struct {
	pace   *rate.Limiter
	warned bool // the account was told that it is too fast
}

const (
	// maxContacts bounds the contacts that are told something. Each has a goroutine.
	maxContacts = 100
	// maxTalks bounds the accounts whose commands are counted: those of the contact list or of --xmpp-allow.
	maxTalks = 10_000
	// commandPause and commandBurst bound the commands of one account. A command may fetch a page.
	commandPause = 3 * time.Second
	commandBurst = 20
	// maxHeard bounds the commands that wait. Those that come while it is reached are dropped.
	maxHeard = 64
	// commandTime bounds a command, which fetches up to four documents.
	commandTime = 30 * time.Second
	// maxContactsFile bounds the file of contacts in bytes.
	maxContactsFile = 64 << 20
)

// contactPrefix begins the keys of progress in the store of news; the id follows.
const contactPrefix = "x"

// openMessenger makes the messenger, if the configuration names an account, and loads its contacts.
func (d *Daemon) openMessenger() error {
	c := d.config
	if c.XMPP.JID == "" {
		return nil
	}
	m := &messenger{
		path: c.path(contactsFile), courier: d.courier, journal: d.recorder.journal, disk: d.news, subs: d.subscriptions, watches: d.watches,
		wanted: d.notifications.wants, server: d.server, self: "http://" + d.http.Addr().String(), log: d.log,
		heard: make(chan heardMessage, maxHeard), contacts: map[string]*contact{}, talks: map[string]*talk{},
	}
	if _, err := c.XMPP.password(); err != nil { // a person who is there sees that; later the node tries again
		return err
	}
	var err error
	m.client, err = xmpp.New(xmpp.Config{
		JID: c.XMPP.JID, Password: c.XMPP.password, Server: c.XMPP.Server, Allow: c.XMPP.Allow, Heard: m.hear, Came: m.wake, Log: d.log,
	})
	if err == nil {
		err = m.load()
	}
	d.messenger, d.status.contacts = m, m
	d.watches.chosen = func(number uint32) error {
		_, err := m.release(number)
		return err
	}
	return err
}

// load reads the file of an earlier run, and begins with its contacts.
func (m *messenger) load() error {
	var file contactsText
	err := readOwnFile(m.path, "the contacts of the messenger", m.log, func(b []byte) (err error) {
		file, err = decodeContacts(b)
		return err
	})
	if err != nil {
		return err
	}
	m.searches = file.Searches
	for _, r := range file.Contacts {
		if err := m.begin(&contact{contactRecord: *r}); err != nil {
			return err
		}
	}
	return nil
}

// A contactsText is the file of contacts.
type contactsText struct {
	Contacts []*contactRecord
	Searches []uint32 // numbers of those that were begun for contacts
}

// decodeContacts reads the file of contacts.
func decodeContacts(b []byte) (file contactsText, err error) {
	if len(b) > maxContactsFile || json.Unmarshal(b, &file) != nil {
		return contactsText{}, errors.New("it is too large, or not JSON")
	}
	seen := map[string]bool{}
	for _, r := range file.Contacts {
		if r == nil || r.ID == "" || r.JID == "" || seen[r.ID] || seen[r.JID] || len(file.Contacts) > maxContacts {
			return contactsText{}, errors.New("a contact in it is not valid")
		}
		seen[r.ID], seen[r.JID] = true, true
	}
	return file, nil
}

// save writes the file. The caller holds the mutex.
func (m *messenger) save() error {
	var file contactsText
	for _, c := range m.contacts {
		file.Contacts = append(file.Contacts, &c.contactRecord)
	}
	slices.SortFunc(file.Contacts, func(a, b *contactRecord) int { return strings.Compare(a.JID, b.JID) })
	file.Searches = m.searches
	b, err := json.MarshalIndent(file, "", "\t")
	if err == nil {
		err = store.WriteFile(m.path, b)
	}
	if err != nil {
		return fmt.Errorf("store the contacts of the messenger: %w", err)
	}
	return nil
}

// begin begins deliveries to a contact. The caller holds the mutex, or nothing runs yet.
func (m *messenger) begin(c *contact) error {
	value, err := m.disk.Get([]byte(contactPrefix + c.ID))
	if err != nil && !errors.Is(err, env.ErrDamaged) { // without its progress, a contact may get the last news again
		return fmt.Errorf("read what a contact has had: %w", err)
	}
	_ = json.Unmarshal(value, &c.progress) // what cannot be read is empty
	if err := m.courier.Add(m.target(c)); err != nil {
		return err
	}
	m.contacts[c.JID] = c
	return nil
}

// wake delivers what has waited for a contact.
func (m *messenger) wake(jid string) {
	m.mu.Lock()
	c := m.contacts[jid]
	m.mu.Unlock()
	if c != nil {
		m.courier.Wake(c.ID)
	}
}

// hear takes a message of a contact.
func (m *messenger) hear(from, text string) {
	select {
	case m.heard <- heardMessage{from, text}:
	default: // the person gets no answer, and tries again
	}
}

// run talks with contacts until ctx ends.
func (m *messenger) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { m.client.Run(ctx) })
	if err := m.sweep(ctx); err != nil && ctx.Err() == nil {
		m.log.Warn("subscriptions of former contacts cannot be ended", "err", err)
	}
	for {
		select {
		case h := <-m.heard:
			m.answer(ctx, h)
		case <-ctx.Done():
			return
		}
	}
}

// sweep ends what was subscribed to for contacts and is wanted by none: the node may have stopped in the middle of a command.
func (m *messenger) sweep(ctx context.Context) error {
	if _, err := os.Stat(m.path); err != nil { // the contacts may be lost
		return nil
	}
	if err := m.subs.awaitNetwork(ctx); err != nil {
		return err
	}
	for _, url := range m.subs.ofMessenger() {
		if err := m.endFeed(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

// answer obeys a message and sends the answer.
func (m *messenger) answer(ctx context.Context, h heardMessage) {
	text, ok := m.mayTalk(h.from)
	if ok {
		ctx, cancel := context.WithTimeout(ctx, commandTime)
		text = m.obey(ctx, h.from, h.text)
		cancel()
	}
	if text == "" {
		return
	}
	if err := m.client.Reply(ctx, h.from, text); err != nil && ctx.Err() == nil {
		m.log.Debug("a contact of the messenger gets no answer", "err", err)
	}
}

// mayTalk reports whether an account may give a command now. The first time that it may not, text says so.
func (m *messenger) mayTalk(jid string) (text string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.talks[jid]
	if t == nil {
		if len(m.talks) >= maxTalks {
			clear(m.talks)
		}
		t = &talk{pace: rate.NewLimiter(rate.Every(commandPause), commandBurst)}
		m.talks[jid] = t
	}
	switch {
	case t.pace.Allow():
		t.warned = false
		return "", true
	case t.warned:
		return "", false
	}
	t.warned = true
	return fmt.Sprintf("That is too fast: wait a minute. I take %d commands at once, and then one in %v.", commandBurst, commandPause), false
}

// newContact returns a contact without anything to tell.
func newContact(jid string) *contact {
	return &contact{contactRecord: contactRecord{ID: "xmpp/" + strings.ToLower(rand.Text()[:10]), JID: jid, Added: time.Now().UTC()}}
}

// change changes the record of a contact, and returns when that is durable. A contact that is told something for the first
// time is added; one that is told nothing any more is forgotten.
func (m *messenger) change(jid string, change func(*contactRecord)) error {
	m.mu.Lock()
	c := m.contacts[jid]
	if c == nil {
		if c = newContact(jid); len(m.contacts) >= maxContacts {
			m.mu.Unlock()
			return fmt.Errorf("this node tells %d people what is new, and that is as many as it can", maxContacts)
		}
	}
	before := c.contactRecord
	change(&c.contactRecord)
	_, known := m.contacts[jid]
	forget := len(c.Feeds)+len(c.Queries) == 0
	m.contacts[jid] = c
	if forget {
		delete(m.contacts, jid)
	}
	err := m.save()
	if err == nil && !known && !forget {
		err = m.begin(c)
	}
	if err != nil {
		c.contactRecord = before
		delete(m.contacts, jid)
		if known {
			m.contacts[jid] = c
		}
	}
	m.mu.Unlock() // the courier may be calling Wants
	if err == nil && known && forget {
		err = errors.Join(m.courier.Remove(c.ID), commit(m.disk, env.Op{Key: []byte(contactPrefix + c.ID)}))
	}
	return err
}

// record returns a copy of the record of a contact.
func (m *messenger) record(jid string) contactRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.contacts[jid]
	if c == nil {
		return contactRecord{JID: jid}
	}
	r := c.contactRecord
	r.Feeds, r.Queries = slices.Clone(r.Feeds), slices.Clone(r.Queries)
	return r
}
