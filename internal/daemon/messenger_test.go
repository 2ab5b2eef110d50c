package daemon

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"tidings/internal/feed"
	"tidings/internal/news"
	"tidings/internal/xmpp"
	"tidings/proxy"
)

// withMessenger lets a node have a messenger whose server cannot be reached.
func withMessenger(t *testing.T, c Config) Config {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	c.XMPP = XMPP{JID: "news@chat.example", PasswordFile: password, Server: "127.0.0.1:1", Allow: []string{"ann@chat.example"}}
	return c
}

const ann, bob = "ann@chat.example", "bob@chat.example"

// Contacts share what the node follows for them, and it ends with the last of them, unless the node's user wants it, too.
func TestCommandsOfContacts(t *testing.T) {
	t.Parallel()
	feed := newFerryFeed(t)
	feed.add("Pier 1")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<html><head><link rel="alternate" type="application/rss+xml" href="`+feed.URL+`/a.xml"><link rel="alternate" type="application/rss+xml" href="`+feed.URL+`/b.xml"></head><body><p>The ferry sails at six o'clock in the morning.</p></body></html>`)
	}))
	t.Cleanup(page.Close)
	c := withMessenger(t, founding(t, "contacts"))
	m := running(t, c)
	m.awaitMembers(t, 1)
	shared, own := feed.URL+"/shared.xml", feed.URL+"/own.xml"
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, own), &struct{}{})
	m.post(t, "watch", `{"query":"lighthouse"}`, &struct{}{})
	write := func(contact, text, want string) {
		t.Helper()
		if got := m.messenger.obey(t.Context(), contact, text); !strings.Contains(got, want) {
			t.Errorf("%s writes %q, and the answer is %q, want %q", contact, text, got, want)
		}
	}
	write(ann, "", "I do not know this command")
	write(ann, "HELP", "subscribe URL")
	write(ann, "list", "You follow nothing yet")
	write(ann, "pause", "You follow nothing yet")
	write(ann, "subscribe", "Write the address")
	write(ann, "watch", "Write what to look for")
	write(ann, "unsubscribe", "Write an address")
	write(ann, "unsubscribe 1", "You follow nothing of that name")
	write(ann, "subscribe  "+shared, "You follow "+shared+" from now on")
	write(ann, "subscribe "+shared, "You follow "+shared+" already")
	write(bob, "Subscribe\n"+shared, "You follow "+shared+" from now on")
	write(ann, "subscribe "+own, "You follow "+own+" from now on")
	write(ann, "subscribe "+page.URL, "advertises 2 feeds")
	write(ann, "subscribe "+page.URL, "\nsubscribe "+feed.URL+"/a.xml")
	write(ann, "subscribe page+"+page.URL, "You follow page+"+page.URL)
	write(ann, "subscribe http://user:gangway@ferry.example/secret", "private feed")
	write(ann, "subscribe harbour", "That did not work")
	write(ann, "watch ferry OR", "That did not work")
	write(ann, "watch  ferry   bridge", "You follow the search for ferry bridge from now on")
	write(ann, "watch bridge ferry", "already")
	write(bob, "watch lighthouse", "You follow the search for lighthouse from now on")
	write(bob, "pause", "I keep news back")
	write(bob, "pause", "already")
	write(ann, "list", "1. "+shared+"\n2. "+own+"\n3. page+"+page.URL+"/\n4. the search for ferry bridge")
	write(bob, "list", "write \"resume\"")

	status, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := status.Messenger; s == nil || s.Account != "news@chat.example" || s.Connected || len(s.Contacts) != 2 || s.Contacts[0].Account != ann || len(s.Contacts[0].Feeds) != 3 || !s.Contacts[1].Paused {
		t.Errorf("the status is %+v", s)
	}
	if shown := m.get(t, proxy.NotifyPath); !strings.Contains(shown, ann) || !strings.Contains(shown, "It is not connected") {
		t.Errorf("the page is %s", shown)
	}
	if found := fmt.Sprint(m.messenger.findings(time.Now().Add(time.Hour))); !strings.Contains(found, "is not connected") || !strings.Contains(found, "--xmpp-server") {
		t.Errorf("the doctor says %s", found)
	}
	m.stop(t)

	file := filepath.Join(c.Dir, contactsFile)
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file of contacts: %v, %v", info, err)
	}
	c.Found = nil
	m = running(t, c)
	m.awaitMembers(t, 1)
	write(ann, "list", "1. "+shared+"\n2. "+own)
	write(ann, "unsubscribe 1", "You do not follow "+shared+" any more")
	if urls := m.subscribedURLs(t); !strings.Contains(urls, shared) {
		t.Errorf("bob wants %s, and the node follows only %s", shared, urls)
	}
	write(ann, "unsubscribe "+own, "You do not follow "+own+" any more")
	write(ann, "unsubscribe "+page.URL, "You do not follow page+"+page.URL)
	write(bob, "unsubscribe "+shared, "You do not follow "+shared+" any more")
	if urls := m.subscribedURLs(t); urls != own {
		t.Errorf("the node follows %s, want only %s, which its user wants", urls, own)
	}
	write(bob, "watch tide", "from now on")
	m.post(t, "watch", `{"query":"tide"}`, &struct{}{}) // the user wants it from now on, too
	write(bob, "unwatch tide", "You do not follow the search for tide any more")
	write(bob, "unwatch lighthouse", "You do not follow the search for lighthouse any more")
	write(ann, "unsubscribe bridge ferry", "You do not follow the search for ferry bridge any more")
	if p, err := m.Watches(t.Context(), proxy.WatchList{Limit: 10}); err != nil || len(p.Watches) != 2 || p.Watches[0].Query != "lighthouse" || p.Watches[1].Query != "tide" {
		t.Errorf("the searches are %v, %v, want only those of the user", p, err)
	}
	write(bob, "list", "You follow nothing yet")
	if len(m.messenger.contacts) > 0 {
		t.Errorf("%d contacts follow nothing and are remembered", len(m.messenger.contacts))
	}

	// The node stops after it has subscribed, and before the contact is stored.
	if err := m.subscriptions.subscribeForContact(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	m.stop(t)
	m = running(t, c)
	m.awaitMembers(t, 1)
	within(t, awaitTimeout, "the end of a subscription that nobody wants", func() error {
		if urls := m.subscribedURLs(t); urls != own {
			return fmt.Errorf("the node follows %s", urls)
		}
		return nil
	})
	write(ann, "subscribe "+shared, "from now on")
	m.stop(t)

	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	m = running(t, c)
	m.awaitMembers(t, 1)
	if found := fmt.Sprint(m.messenger.findings(time.Now())); !strings.Contains(found, file+damagedFileEnd) {
		t.Errorf("the doctor says %s", found)
	}
	if urls := m.subscribedURLs(t); !strings.Contains(urls, shared) {
		t.Errorf("the contacts are lost, and the node follows only %s", urls)
	}
	m.stop(t)
}

// A flood is one message, which stays the same however often it is sent, and although more has come meanwhile and the node was
// started again.
func TestAFloodIsOneMessage(t *testing.T) {
	journal, disk, err := openNews(filepath.Join(t.TempDir(), newsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	open := func() (*messenger, *contact) {
		m := &messenger{journal: journal, disk: disk, courier: news.NewCourier(journal, slog.New(slog.DiscardHandler)), contacts: map[string]*contact{}}
		m.client, err = xmpp.New(xmpp.Config{
			JID: "news@chat.example", Password: func() (string, error) { return "", nil }, Heard: m.hear, Came: m.wake, Log: slog.New(slog.DiscardHandler),
		})
		c := &contact{contactRecord: contactRecord{ID: "xmpp/1", JID: ann, Feeds: []string{"https://ferry.example/"}, Queries: []string{"bridge"}}}
		if err == nil {
			err = m.begin(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m, c
	}
	record := func(source news.Source, titles ...string) {
		t.Helper()
		doc := &feed.Document{}
		for _, title := range titles {
			doc.Entries = append(doc.Entries, feed.Entry{Meaning: &feed.Meaning{GUID: title, Title: title, Link: "https://ferry.example/" + title}})
		}
		if n, err := journal.Record(source, news.Document{Document: doc, Complete: true, Fresh: len(titles)}); err != nil || n != len(titles) {
			t.Fatalf("%d events, %v", n, err)
		}
	}
	var piers, bridges, masts []string
	for i := range 9_989 {
		piers = append(piers, fmt.Sprint("Pier", i))
	}
	for i := range 11 {
		bridges, masts = append(bridges, fmt.Sprint("Bridge", i)), append(masts, fmt.Sprint("Mast", i))
	}
	record(news.Source{URL: "https://ferry.example/", Title: "Ferry"}, piers...)
	record(news.Source{Query: "bridge"}, bridges...)
	first, _, err := journal.After(0, maxSingles+1)
	if err != nil {
		t.Fatal(err)
	}
	m, c := open()
	if err := m.send(t.Context(), c, slices.Clone(first)); err == nil || !strings.Contains(err.Error(), "not logged in") {
		t.Fatalf("without a session: %v", err)
	}
	before, err := m.digest(c, 0, c.progress.Offered)
	if err != nil {
		t.Fatal(err)
	}
	if want := "10000 pieces of news:\n9989 in Ferry\n11 in the search for bridge\nThe newest:\nSearch: bridge: Bridge0\n"; !strings.HasPrefix(before, want) || strings.Count(before, "Bridge") != 10 {
		t.Errorf("the message is %q, want %q", before, want)
	}

	record(news.Source{URL: "https://mast.example/"}, masts...)
	m, c = open()
	if err := m.send(t.Context(), c, slices.Clone(first)); err == nil {
		t.Fatal("a message was sent without a session")
	}
	if want := (contactProgress{Offered: 10_000, Digest: true}); c.progress != want {
		t.Errorf("the progress is %+v, want %+v", c.progress, want)
	}
	if !m.wants(c, &first[0]) || m.note(c, contactProgress{Had: 10_000}) != nil || m.wants(c, &first[0]) {
		t.Error("a contact wants an event exactly until it has had it")
	}
}

func TestContactsWriteAtTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &messenger{talks: map[string]*talk{}}
		expect := func(contact string, may bool, why string) {
			t.Helper()
			if text, ok := m.mayTalk(contact); ok != may || (text == "") != (why == "") || !strings.Contains(text, why) {
				t.Errorf("%s may write: %v, %q, want %v, %q", contact, ok, text, may, why)
			}
		}
		for range commandBurst {
			expect(ann, true, "")
		}
		expect(ann, false, "too fast")
		expect(ann, false, "")
		expect(bob, true, "")
		time.Sleep(commandPause) // virtual
		expect(ann, true, "")
		expect(ann, false, "too fast")
	})
}

func TestMessengerSettings(t *testing.T) {
	for want, x := range map[string]XMPP{
		"--xmpp-jid is missing":           {PasswordFile: "p"},
		"--xmpp-password-file is missing": {JID: "news@chat.example"},
		"--xmpp-jid: \"chat.example\"":    {JID: "chat.example", PasswordFile: "p"},
		"--xmpp-server \"chat.example\"":  {JID: "news@chat.example", PasswordFile: "p", Server: "chat.example"},
		"--xmpp-allow: \"ann\"":           {JID: "news@chat.example", PasswordFile: "p", Allow: []string{"ann"}},
	} {
		c := DefaultConfig("x")
		c.XMPP = x
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", x, err, want)
		}
	}
	c := DefaultConfig("x")
	c.HTTP, c.XMPP = noHTTP, XMPP{JID: "news@chat.example", PasswordFile: "p"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--http none") {
		t.Errorf("a messenger without a server: %v", err)
	}
	file := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]string{"gangway": "gangway", "gang way\r\nsecond": "gang way", "": "", "\nx": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := (XMPP{PasswordFile: file}).password(); got != want || (err == nil) != (want != "") {
			t.Errorf("the password in %q is %q, %v", text, got, err)
		}
	}
	if _, err := (XMPP{PasswordFile: file + "x"}).password(); err == nil || !strings.Contains(err.Error(), "--xmpp-password-file") {
		t.Errorf("a file that is missing: %v", err)
	}
	c = withMessenger(t, founding(t, "missing"))
	c.XMPP.PasswordFile = file + "x"
	if d, err := Open(c); err == nil || !strings.Contains(err.Error(), "--xmpp-password-file") {
		t.Errorf("a node starts without the password of its messenger: %v, %v", d, err)
	}
}

// FuzzCommand splits messages: the first word has no spaces, and nothing but spaces is lost.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{"subscribe https://harbour.example/feed.xml", " LIST ", "watch  a b", "", "pause\xff", "\u00a0help\u2003me"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		verb, argument := parseCommand(text)
		if len(strings.Fields(verb)) > 1 || verb == "" && argument != "" || !utf8.ValidString(verb+argument) {
			t.Errorf("%q is the command %q with %q", text, verb, argument)
		}
		words := strings.Fields(strings.ToValidUTF8(text, "\uFFFD"))
		if len(words) > 0 {
			words[0] = strings.ToLower(words[0])
		}
		if got := strings.Fields(verb + " " + argument); !slices.Equal(got, words) {
			t.Errorf("%q became %q, want %q", text, got, words)
		}
	})
}

// FuzzContacts reads files of contacts.
func FuzzContacts(f *testing.F) {
	f.Add([]byte(`{"Contacts":[{"ID":"xmpp/a","JID":"ann@chat.example","Feeds":["https://harbour.example/"],"Added":"2026-11-28T11:00:00Z"}],"Searches":[1]}`))
	f.Add([]byte(`{"Contacts":[null]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := decodeContacts(b)
		if err != nil {
			return
		}
		for _, r := range file.Contacts {
			if r.ID == "" || r.JID == "" {
				t.Errorf("a contact is %+v", r)
			}
		}
	})
}
