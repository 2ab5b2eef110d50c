package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/internal/feed"
)

// A Look is what somebody finds at an address who looks before he subscribes.
type Inspection struct {
	Feed          bool     // there is one at the address itself
	Page          bool     // a page of text, whose changes can be followed
	Feeds         []Choice // that it advertises; none: it does not, or it is a feed
	NotFeedReason string   // what the document is in place of a feed, for people; "": it is one, or a page was asked for
	Warning       string   // why what is there may not be the page that was asked for; "": it seems to be
}

// A Choice is what can be subscribed to at an address.
type Choice struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
	Kind  string `json:"kind"` // feed, page
}

// Kinds of channels.
const (
	KindFeed = "feed"
	KindPage = "page"
)

// KindOf is that of the channel with an address.
func KindOf(address string) string {
	if _, isPage := feed.AtOrigin(address); isPage {
		return KindPage
	}
	return KindFeed
}

// lookTime is how long a subscription waits for a look at its address. What is not there by
// then is subscribed to as it was asked: it will be seen whether it is a feed.
const inspectTime = 10 * time.Second

// An instead is the error of who subscribes to what is not what he took it for, while there is
// something else to subscribe to.
type choiceError struct {
	message string
	choices []Choice // the page itself at the end, if it can be followed
}

func (i *choiceError) Error() string { return i.message }

// insteadOfFeed is for who takes a page for a feed that does not have just one feed.
func notFeedError(address string, look Inspection) *choiceError {
	feeds, i := len(look.Feeds), &choiceError{choices: look.Feeds}
	why := cmp.Or(look.NotFeedReason, ErrNotFeed.Error())
	if look.Page {
		i.choices = append(i.choices, Choice{URL: feed.Page(address), Kind: KindPage})
	}
	switch {
	case feeds == 1 && !look.Page:
		i.message = why + ", and the feed that it advertises cannot be read now"
	case feeds == 1:
		i.message = why + "; the feed that it advertises cannot be read now; you can follow the page itself"
	case feeds == 0:
		i.message = why + ", and it advertises none; you can follow the page itself"
	case !look.Page:
		i.message = fmt.Sprintf("%s, but it advertises %d feeds", why, feeds)
	default:
		i.message = fmt.Sprintf("a web page that advertises %d feeds; choose one of them, or follow the page itself", feeds)
	}
	return i
}

// insteadOfPage is for who takes a feed for a page, or a document that has no text to follow.
func notPageError(document string, look Inspection) *choiceError {
	switch feeds := len(look.Feeds); {
	case look.Feed:
		return &choiceError{"a feed, not a page", []Choice{{URL: document, Kind: KindFeed}}}
	case feeds == 1:
		return &choiceError{"a page without text, but it advertises a feed", look.Feeds}
	default:
		return &choiceError{fmt.Sprintf("a page without text, but it advertises %d feeds", feeds), look.Feeds}
	}
}

// subscribe subscribes to an address, or to the one feed that the page there advertises. If there is something else
// to choose, the error is an *instead. What surely is nothing to follow is not subscribed to. A subscription that
// stands is looked at again only while nothing of it has been read.
func (s *Server) subscribe(ctx context.Context, address string) (done SubscribeMessage, err error) {
	looking, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	done.URL = address
	var doubt error
	if _, known := s.subs.Version(address); known {
		done.Already, doubt, err = s.existing(looking, address)
	} else {
		done.URL, doubt, err = s.chooseTarget(looking, address)
	}
	if err != nil {
		return SubscribeMessage{}, err
	}
	if done.Advertised = done.URL != address; doubt != nil {
		done.Warning = oneLine(doubt.Error())
		if t, ok := errors.AsType[*ReadError](doubt); ok {
			done.Warning = oneLine(t.Reason)
		}
	}
	return done, s.subs.Subscribe(ctx, done.URL, false)
}

// choose looks at an address and returns what to subscribe to. Doubt says why nothing can be seen there now.
func (s *Server) chooseTarget(ctx context.Context, address string) (to string, doubt, err error) {
	document, isPage := feed.AtOrigin(address)
	look, err := s.subs.Inspect(ctx, address)
	switch {
	case err != nil && isHopeless(err):
		return "", nil, fmt.Errorf("%w; not subscribed", err)
	case err != nil:
		return address, err, nil
	case isPage && (look.Feed || !look.Page):
		return "", nil, notPageError(document, look)
	case isPage && look.Warning != "":
		return address, errors.New(look.Warning), nil
	case isPage || look.Feed:
		return address, nil, nil
	case len(look.Feeds) == 1 && s.isLiveFeed(ctx, look.Feeds[0].URL):
		return look.Feeds[0].URL, nil, nil
	case len(look.Feeds) > 0 || look.Page:
		return "", nil, notFeedError(address, look)
	}
	return address, nil, nil
}

// standing reports whether somebody asked for a subscription before, and why nothing of it could be read yet.
func (s *Server) existing(ctx context.Context, address string) (already bool, doubt, err error) {
	channels, err := s.subs.List(ctx)
	if err != nil {
		return false, nil, err
	}
	for _, c := range channels {
		switch {
		case c.URL != address:
			continue
		case c.Items == 0 && c.Failing() && c.Error != "":
			doubt = errors.New(c.Error)
		case c.State == StateNew: // no poll has told anything yet
			_, doubt = s.subs.Inspect(ctx, address)
		}
		return !c.Auto, doubt, nil
	}
	return false, nil, nil
}

// vain says whether what was seen at an address leaves nothing to subscribe to.
func isHopeless(err error) bool {
	for _, is := range []error{ErrNotFeed, ErrNotPage, ErrForbidden, ErrNotFound, ErrGone} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// lives says whether there is a feed where a page says so: some have not been there for years. One of
// which nothing can be seen now is believed.
func (s *Server) isLiveFeed(ctx context.Context, address string) bool {
	look, err := s.subs.Inspect(ctx, address)
	return err != nil || look.Feed
}
