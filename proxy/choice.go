package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// An Inspection says what was found at an address before subscribing to it.
type Inspection struct {
	Feed          bool     // the address itself is a feed
	Page          bool     // the address is a page with text, whose changes can be followed
	Feeds         []Choice // feeds that the page advertises; empty if the address is a feed
	NotFeedReason string   // what the document is instead of a feed, for people; "" if it is a feed or a page was requested
	Warning       string   // why the document may not be the page that was requested; "" if it seems to be
	Redirected    bool     // the web server sent the node to another address
	Counts        []string // the first lines of what counts on the page, if the address says it
}

// A Choice is one of several things to subscribe to at an address.
type Choice struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
	Kind  string `json:"kind"` // KindFeed or KindPage
	// Comments says that the feed has the comments of a page, and not its articles.
	Comments bool `json:"comments,omitempty"`
}

// Kinds of channels.
const (
	KindFeed = "feed"
	KindPage = "page"
)

// KindOf returns the kind of the channel with an address.
func KindOf(address string) string {
	if _, isPage := feed.DocumentURL(address); isPage {
		return KindPage
	}
	return KindFeed
}

// inspectTime is how long a subscription waits for the inspection of its address. An address that has not answered
// by then is subscribed to as requested; later polls show whether it is a feed.
const inspectTime = 10 * time.Second

// A choiceError says that an address is not what the user takes it for, and what else can be subscribed to.
type choiceError struct {
	message locale.Text
	choices []Choice // the page itself comes last, if it can be followed
}

func (e *choiceError) Error() string { return e.message.String() }

// notFeedError returns the error for a page that was taken for a feed and does not have exactly one feed. advertised
// is the number of feeds that it advertises, and found.Feeds those of them that may exist.
func notFeedError(address string, found Inspection, advertised int) *choiceError {
	feeds, e := len(found.Feeds), &choiceError{choices: found.Feeds}
	why := locale.Verbatim(found.NotFeedReason) // in English, except for the most frequent ones
	switch found.NotFeedReason {
	case "":
		why = locale.Say("not a feed")
	case "a web page, not a feed":
		why = locale.Say("a web page, not a feed")
	}
	if found.Page {
		e.choices = append(e.choices, Choice{URL: feed.PageChannel(address), Kind: KindPage})
	}
	switch {
	case feeds == 1:
		e.message = locale.Say("%s; the feed that it advertises has comments", why)
	case feeds == 0 && advertised > 0 && !found.Page:
		e.message = locale.Say("%s, and the feed that it advertises is none", why)
	case feeds == 0 && advertised > 0:
		e.message = locale.Say("%s, and the feed that it advertises is none; you can follow the page itself", why)
	case feeds == 0:
		e.message = locale.Say("%s, and it advertises none; you can follow the page itself", why)
	case !found.Page:
		e.message = locale.Say("%s, but it advertises %d feeds", why, feeds)
	default:
		e.message = locale.Say("a web page that advertises %d feeds; choose one of them, or follow the page itself", feeds)
	}
	return e
}

// notPageError returns the error for a feed that was taken for a page, or for a document without text to follow.
func notPageError(document string, found Inspection) *choiceError {
	switch feeds := len(found.Feeds); {
	case found.Feed:
		return &choiceError{locale.Say("a feed, not a page"), []Choice{{URL: document, Kind: KindFeed}}}
	case feeds == 1:
		return &choiceError{locale.Say("a page without text, but it advertises a feed"), found.Feeds}
	default:
		return &choiceError{locale.Say("a page without text, but it advertises %d feeds", feeds), found.Feeds}
	}
}

// subscribe subscribes to an address, or to the only feed that the page there advertises. If there is a choice, the
// error is a *choiceError. An address that certainly cannot be followed is not subscribed to. An existing
// subscription is inspected again only until its first poll has a result.
func (s *Server) subscribe(ctx context.Context, address string, quietly bool) (SubscribeMessage, error) {
	done, err := s.Choose(ctx, address)
	if err != nil {
		return SubscribeMessage{}, err
	}
	if done.QuietFollow = quietly; quietly {
		return done, s.subs.SubscribeQuietly(ctx, done.URL)
	}
	return done, s.subs.Subscribe(ctx, done.URL, false)
}

// Choose returns the address to subscribe to for an address, itself or that of the only feed that the page there advertises, and
// what is to be said about it. [Choices] returns what else can be chosen after an error.
func (s *Server) Choose(ctx context.Context, address string) (done SubscribeMessage, err error) {
	inspectCtx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	done.URL = address
	var warning error
	if _, known := s.subs.Version(address); known {
		done.Already, warning, err = s.existing(inspectCtx, address)
	} else {
		done.URL, done.Counts, warning, err = s.chooseTarget(inspectCtx, address)
	}
	if err != nil {
		return SubscribeMessage{}, err
	}
	if done.Advertised = done.URL != address; warning != nil {
		done.Warning = oneLine(warning.Error())
		if t, ok := errors.AsType[*ReadError](warning); ok {
			done.Warning = oneLine(t.Reason)
		}
	}
	return done, nil
}

// chooseTarget inspects an address and returns the address to subscribe to, with the beginning of what counts on the
// page. warning says why nothing can be read there now.
func (s *Server) chooseTarget(ctx context.Context, address string) (to string, counts []string, warning, err error) {
	document, isPage := feed.DocumentURL(address)
	found, err := s.subs.Inspect(ctx, address)
	switch {
	case err != nil && isHopeless(err):
		return "", nil, nil, fmt.Errorf("%w; not subscribed", err)
	case err != nil:
		return address, nil, err, nil
	case isPage && (found.Feed || !found.Page):
		return "", nil, nil, notPageError(document, found)
	case isPage && found.Warning != "":
		return address, found.Counts, errors.New(found.Warning), nil
	case isPage || found.Feed:
		return address, found.Counts, nil, nil
	}
	advertised := len(found.Feeds)
	found.Feeds = s.withoutDead(ctx, found)
	switch {
	case len(found.Feeds) == 1 && !found.Feeds[0].Comments:
		return found.Feeds[0].URL, nil, nil, nil
	case advertised > 0 || found.Page:
		return "", nil, nil, notFeedError(address, found, advertised)
	}
	return address, nil, nil, nil
}

// existing reports whether an existing subscription was requested by a user, and why no item of it has been read
// yet.
func (s *Server) existing(ctx context.Context, address string) (already bool, warning, err error) {
	found, err := s.subscriptionsTo(ctx, []string{address})
	c, ok := found[address]
	switch {
	case err != nil || !ok:
		return false, nil, err
	case c.Items == 0 && c.Failing() && c.Error != "":
		warning = errors.New(c.Error)
	case c.State == StateNew: // no poll has had a result yet
		_, warning = s.subs.Inspect(ctx, address)
	}
	return !c.Auto, warning, nil
}

// isHopeless reports whether an inspection's error means that there is nothing to subscribe to.
func isHopeless(err error) bool {
	for _, is := range []error{ErrNotFeed, ErrNotPage, ErrForbidden, ErrNotFound, ErrGone} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// maxRequests bounds the requests for one subscription to a page: the page and a few of the feeds that it advertises.
// A redirect is a request, too.
const maxRequests = 4

// withoutDead returns the feeds that a page advertises, without those that certainly are none: some pages advertise
// feeds that have been gone for years, or that lead to a page again. Feeds that cannot be read now are believed, and
// so are those for which no requests are left.
func (s *Server) withoutDead(ctx context.Context, of Inspection) (feeds []Choice) {
	left := maxRequests - of.requests()
	for _, c := range of.Feeds {
		if left >= 2 { // the address may be redirected
			found, err := s.subs.Inspect(ctx, c.URL)
			left -= found.requests()
			if err != nil && isHopeless(err) || err == nil && !found.Feed {
				continue
			}
		}
		feeds = append(feeds, c)
	}
	return feeds
}

// requests returns how many requests an inspection takes.
func (i Inspection) requests() int {
	if i.Redirected {
		return 2
	}
	return 1
}
