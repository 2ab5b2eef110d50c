package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tidings/cobra/query"
	"tidings/internal/feed"
	"tidings/internal/news"
	"tidings/proxy"
)

// messengerHelp is the answer to "help".
const messengerHelp = `I tell you what is new in feeds and on web pages. Write me:
subscribe URL – follow a feed or a page
watch QUERY – follow a search, such as: watch ferry "timetable change"
unsubscribe URL, QUERY or number – stop following it
list – what you follow, with numbers
pause – keep news back until you write: resume
help – this text
I deliver news while I can see that you are online, so please let me see your presence.`

// parseCommand splits a message into its first word, in small letters, and the rest.
func parseCommand(text string) (verb, argument string) {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if end := strings.IndexFunc(text, unicode.IsSpace); end >= 0 {
		text, argument = text[:end], strings.TrimSpace(text[end:])
	}
	return strings.ToLower(text), argument
}

// obey carries out a command of a contact, and returns the answer.
func (m *messenger) obey(ctx context.Context, jid, text string) string {
	verb, argument := parseCommand(text)
	var answer string
	var err error
	switch verb {
	case "subscribe":
		answer, err = m.subscribe(ctx, jid, argument)
	case "watch":
		answer, err = m.watch(ctx, jid, argument)
	case "unsubscribe", "unwatch":
		answer, err = m.unsubscribe(ctx, jid, argument)
	case "list":
		answer = m.list(jid)
	case "pause", "resume":
		answer, err = m.pause(jid, verb == "pause")
	case "help", "?":
		answer = messengerHelp
	default:
		answer = "I do not know this command.\n" + messengerHelp
	}
	if err != nil {
		answer = "That did not work: " + err.Error() + "."
		for _, c := range proxy.Choices(err) {
			answer += "\nsubscribe " + c.URL
			if c.Title != "" {
				answer += " – " + c.Title
			}
		}
	}
	return answer
}

// checkRoom returns an error if a contact cannot follow another feed or search.
func (r *contactRecord) checkRoom() error {
	if len(r.Feeds)+len(r.Queries) >= maxTargetSources {
		return fmt.Errorf("you follow %d feeds and searches, and that is as many as you can: unsubscribe from another one first", maxTargetSources)
	}
	return nil
}

// subscribe lets a contact follow a feed or a page.
func (m *messenger) subscribe(ctx context.Context, jid, text string) (string, error) {
	if text == "" {
		return "Write the address of a feed or a page behind it, such as: subscribe https://harbour.example/feed.xml", nil
	}
	address, err := m.server.Resolve(ctx, m.self, text)
	if err != nil {
		return "", err
	}
	r := m.record(jid)
	if slices.Contains(r.Feeds, address) {
		return "You follow " + address + " already.", nil
	}
	if err := r.checkRoom(); err != nil {
		return "", err
	}
	chosen, err := m.server.Choose(ctx, address)
	if err != nil {
		return "", err
	}
	if err := m.subs.subscribeForContact(ctx, chosen.URL); err != nil {
		return "", err
	}
	err = m.change(jid, func(r *contactRecord) {
		if !slices.Contains(r.Feeds, chosen.URL) {
			r.Feeds = append(slices.Clip(r.Feeds), chosen.URL)
		}
	})
	if err != nil {
		return "", errors.Join(err, m.endFeed(ctx, chosen.URL))
	}
	answer := "You follow " + chosen.URL + " from now on."
	if chosen.Advertised {
		answer = "The page names a feed. " + answer
	}
	if chosen.Warning != "" {
		answer += "\nNothing can be read there at present: " + chosen.Warning
	}
	return answer, nil
}

// watch lets a contact follow a search.
func (m *messenger) watch(ctx context.Context, jid, text string) (string, error) {
	if text == "" {
		return `Write what to look for behind it, such as: watch ferry "timetable change"`, nil
	}
	r := m.record(jid)
	if err := r.checkRoom(); err != nil {
		return "", err
	}
	before, err := m.watches.SameWatches(ctx, text)
	if err != nil {
		return "", err
	}
	w, err := m.watches.watch(ctx, text)
	if err != nil {
		return "", err
	}
	isNew := len(before) == 0
	if slices.Contains(r.Queries, w.Query) {
		return "You follow the search for " + w.Query + " already.", nil
	}
	err = m.change(jid, func(r *contactRecord) {
		r.Queries = append(slices.Clip(r.Queries), w.Query)
		if isNew {
			m.searches = append(m.searches, w.Number)
		}
	})
	if err != nil {
		return "", err
	}
	return "You follow the search for " + w.Query + " from now on.", nil
}

// unsubscribe ends what a contact follows: a feed by its address, a search by its query, or either by its number in the list.
func (m *messenger) unsubscribe(ctx context.Context, jid, text string) (string, error) {
	if text == "" {
		return "Write an address, a query or a number of the list behind it, such as: unsubscribe 1", nil
	}
	r := m.record(jid)
	feedAt, queryAt := m.find(ctx, &r, text)
	switch {
	case feedAt >= 0:
		url := r.Feeds[feedAt]
		if err := m.change(jid, func(r *contactRecord) {
			r.Feeds = slices.DeleteFunc(slices.Clone(r.Feeds), func(u string) bool { return u == url })
		}); err != nil {
			return "", err
		}
		return "You do not follow " + url + " any more.", m.endFeed(ctx, url)
	case queryAt >= 0:
		text := r.Queries[queryAt]
		if err := m.change(jid, func(r *contactRecord) {
			r.Queries = slices.DeleteFunc(slices.Clone(r.Queries), func(q string) bool { return q == text })
		}); err != nil {
			return "", err
		}
		return "You do not follow the search for " + text + " any more.", m.endSearch(ctx, text)
	}
	return "You follow nothing of that name: the answer to \"list\" has what you follow.", nil
}

// find returns the index of a feed or of a query that a contact means; -1: none.
func (m *messenger) find(ctx context.Context, r *contactRecord, text string) (feedAt, queryAt int) {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(r.Feeds)+len(r.Queries) {
		if n <= len(r.Feeds) {
			return n - 1, -1
		}
		return -1, n - 1 - len(r.Feeds)
	}
	address, err := m.server.Resolve(ctx, m.self, text)
	feedAt = slices.IndexFunc(r.Feeds, func(u string) bool {
		return u == text || err == nil && (u == address || u == feed.PageChannel(address))
	})
	if feedAt >= 0 {
		return feedAt, -1
	}
	meaning, err := query.Canonical(text)
	return -1, slices.IndexFunc(r.Queries, func(q string) bool {
		other, wrong := query.Canonical(q)
		return q == text || err == nil && wrong == nil && other == meaning
	})
}

// isWanted reports whether a contact or a target of notifications wants a feed or a search.
func (m *messenger) isWanted(url, query string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.contacts {
		if url != "" && slices.Contains(c.Feeds, url) || query != "" && slices.Contains(c.Queries, query) {
			return true
		}
	}
	return m.wanted(url, query)
}

// endFeed ends the subscription to a feed that was made for contacts and that nobody wants any more.
func (m *messenger) endFeed(ctx context.Context, url string) error {
	if m.isWanted(url, "") {
		return nil
	}
	err := m.subs.unsubscribe(ctx, url, func(s *subscription) bool { return s.attributes.Messenger })
	if errors.Is(err, proxy.ErrNoSubscription) {
		return nil
	}
	return err
}

// endSearch ends a search that was begun for contacts and that nobody wants any more.
func (m *messenger) endSearch(ctx context.Context, text string) error {
	if m.isWanted("", text) {
		return nil
	}
	same, err := m.watches.SameWatches(ctx, text)
	if err != nil || len(same) == 0 {
		return err
	}
	begun, err := m.release(same[0].Number)
	if !begun || err != nil {
		return err
	}
	if err = m.watches.Unwatch(ctx, same[0].Number); errors.Is(err, proxy.ErrNoSubscription) {
		return nil
	}
	return err
}

// release notes that a search does not end with the contacts that follow it. It reports whether it was begun for contacts.
func (m *messenger) release(number uint32) (begun bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.searches, number)
	if at < 0 {
		return false, nil
	}
	m.searches = slices.Delete(m.searches, at, at+1)
	return true, m.save()
}

// pause holds back news for a contact, or delivers it again.
func (m *messenger) pause(jid string, on bool) (string, error) {
	r := m.record(jid)
	switch {
	case r.ID == "":
		return "You follow nothing yet: write \"subscribe\" and the address of a feed.", nil
	case r.Paused == on && on:
		return "News is held back already. Write \"resume\" to get it.", nil
	case r.Paused == on:
		return "News is not held back.", nil
	}
	if err := m.change(jid, func(r *contactRecord) { r.Paused = on }); err != nil {
		return "", err
	}
	if on {
		return "I keep news back until you write \"resume\", for up to ten days.", nil
	}
	m.wake(jid)
	return "You get news again, and now what has come meanwhile.", nil
}

// maxListed bounds the answer to "list" in bytes.
const maxListed = 16 << 10

// list returns what a contact follows.
func (m *messenger) list(jid string) string {
	r := m.record(jid)
	if r.ID == "" {
		return "You follow nothing yet: write \"subscribe\" and the address of a feed."
	}
	var b strings.Builder
	b.WriteString("You follow:")
	for i, name := range slices.Concat(r.Feeds, r.Queries) {
		if b.Len() > maxListed {
			fmt.Fprintf(&b, "\nand %d more", len(r.Feeds)+len(r.Queries)-i)
			break
		}
		if i >= len(r.Feeds) {
			name = "the search for " + name
		} else if _, followed := m.subs.version(name); !followed {
			name += " (the node's user has ended it)"
		}
		fmt.Fprintf(&b, "\n%d. %s", i+1, name)
	}
	if r.Paused {
		b.WriteString("\nNews is held back: write \"resume\" to get it.")
	}
	if s, ok := m.courier.State(r.ID); ok && s.Missed {
		fmt.Fprintf(&b, "\nSome news was older than %d days when you came, and is not kept any more.", int(news.MaxAge/(24*time.Hour)))
	}
	return b.String()
}
