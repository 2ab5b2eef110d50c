package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/internal/feed"
)

// A Look is what somebody finds at an address who looks before he subscribes.
type Look struct {
	Feed  bool     // there is one at the address itself
	Page  bool     // a page of text, whose changes can be followed
	Feeds []Choice // that it advertises; none: it does not, or it is a feed
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
const lookTime = 10 * time.Second

// A pageInstead is the error of who subscribes to a page that he did not call one, and that
// does not have just one feed.
type pageInstead struct {
	choices []Choice // the page itself at the end, if it can be followed
}

func (p *pageInstead) Error() string {
	feeds := len(p.choices)
	if feeds > 0 && p.choices[feeds-1].Kind == KindPage {
		feeds--
	}
	switch {
	case feeds == 1 && feeds == len(p.choices):
		return "this is no feed, and the one that it advertises cannot be read now"
	case feeds == 1:
		return "this is a page, and the feed that it advertises cannot be read now; the page itself can be followed"
	case feeds == 0:
		return "this is a page, and advertises no feed; the page itself can be followed"
	case feeds == len(p.choices):
		return fmt.Sprintf("this is no feed, but advertises %d of them", feeds)
	}
	return fmt.Sprintf("this is a page, and advertises %d feeds; the page itself can be followed, too", feeds)
}

// subscribe subscribes to an address, or to the one feed that the page there advertises, and
// returns what was subscribed to. If there is a choice, the error is a *pageInstead. What surely is no
// feed is not subscribed to; of what cannot be seen now, doubt says why.
func (s *Server) subscribe(ctx context.Context, address string) (to string, doubt, err error) {
	if _, known := s.subs.Version(address); !known && KindOf(address) == KindFeed {
		looking, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		look, err := s.subs.Look(looking, address)
		switch {
		case err != nil && vain(err):
			return "", nil, err
		case err != nil:
			doubt = err
		case len(look.Feeds) == 1 && s.lives(looking, look.Feeds[0].URL):
			address = look.Feeds[0].URL
		case len(look.Feeds) > 0 || look.Page:
			if look.Page {
				look.Feeds = append(look.Feeds, Choice{URL: feed.Page(address), Kind: KindPage})
			}
			return "", nil, &pageInstead{look.Feeds}
		}
	}
	return address, doubt, s.subs.Subscribe(ctx, address, false)
}

// vain says whether what was seen at an address leaves nothing to subscribe to.
func vain(err error) bool {
	for _, is := range []error{ErrNotFeed, ErrRefused, ErrNotFound, ErrGone} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// lives says whether there is a feed where a page says so: some have not been there for years. One of
// which nothing can be seen now is believed.
func (s *Server) lives(ctx context.Context, address string) bool {
	look, err := s.subs.Look(ctx, address)
	return err != nil || look.Feed
}
