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
type Look struct {
	Feed  bool     // there is one at the address itself
	Page  bool     // a page of text, whose changes can be followed
	Feeds []Choice // that it advertises; none: it does not, or it is a feed
	Why   string   // what the document is in place of a feed, for people; "": it is one, or a page was asked for
	Doubt string   // why what is there may not be the page that was asked for; "": it seems to be
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
	if _, isPage := feed.DocumentURL(address); isPage {
		return KindPage
	}
	return KindFeed
}

// lookTime is how long a subscription waits for a look at its address. What is not there by
// then is subscribed to as it was asked: it will be seen whether it is a feed.
const lookTime = 10 * time.Second

// An instead is the error of who subscribes to what is not what he took it for, while there is
// something else to subscribe to.
type instead struct {
	words   string
	choices []Choice // the page itself at the end, if it can be followed
}

func (i *instead) Error() string { return i.words }

// insteadOfFeed is for who takes a page for a feed that does not have just one feed.
func insteadOfFeed(address string, look Look) *instead {
	feeds, i := len(look.Feeds), &instead{choices: look.Feeds}
	why := cmp.Or(look.Why, ErrNotFeed.Error())
	if look.Page {
		i.choices = append(i.choices, Choice{URL: feed.PageChannel(address), Kind: KindPage})
	}
	switch {
	case feeds == 1 && !look.Page:
		i.words = why + ", and the feed that it advertises cannot be read now"
	case feeds == 1:
		i.words = why + "; the feed that it advertises cannot be read now; you can follow the page itself"
	case feeds == 0:
		i.words = why + ", and it advertises none; you can follow the page itself"
	case !look.Page:
		i.words = fmt.Sprintf("%s, but it advertises %d feeds", why, feeds)
	default:
		i.words = fmt.Sprintf("a web page that advertises %d feeds; choose one of them, or follow the page itself", feeds)
	}
	return i
}

// insteadOfPage is for who takes a feed for a page, or a document that has no text to follow.
func insteadOfPage(document string, look Look) *instead {
	switch feeds := len(look.Feeds); {
	case look.Feed:
		return &instead{"a feed, not a page", []Choice{{URL: document, Kind: KindFeed}}}
	case feeds == 1:
		return &instead{"a page without text, but it advertises a feed", look.Feeds}
	default:
		return &instead{fmt.Sprintf("a page without text, but it advertises %d feeds", feeds), look.Feeds}
	}
}

// subscribe subscribes to an address, or to the one feed that the page there advertises. If there is something else
// to choose, the error is an *instead. What surely is nothing to follow is not subscribed to. A subscription that
// stands is looked at again only while nothing of it has been read.
func (s *Server) subscribe(ctx context.Context, address string) (done Subscribed, err error) {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	done.URL = address
	var doubt error
	if _, known := s.subs.Version(address); known {
		done.Already, doubt, err = s.standing(looking, address)
	} else {
		done.URL, doubt, err = s.choose(looking, address)
	}
	if err != nil {
		return Subscribed{}, err
	}
	if done.Advertised = done.URL != address; doubt != nil {
		done.Doubt = line(doubt.Error())
		if t, ok := errors.AsType[*Trouble](doubt); ok {
			done.Doubt = line(t.Words)
		}
	}
	return done, s.subs.Subscribe(ctx, done.URL, false)
}

// choose looks at an address and returns what to subscribe to. Doubt says why nothing can be seen there now.
func (s *Server) choose(ctx context.Context, address string) (to string, doubt, err error) {
	document, isPage := feed.DocumentURL(address)
	look, err := s.subs.Look(ctx, address)
	switch {
	case err != nil && vain(err):
		return "", nil, fmt.Errorf("%w; not subscribed", err)
	case err != nil:
		return address, err, nil
	case isPage && (look.Feed || !look.Page):
		return "", nil, insteadOfPage(document, look)
	case isPage && look.Doubt != "":
		return address, errors.New(look.Doubt), nil
	case isPage || look.Feed:
		return address, nil, nil
	case len(look.Feeds) == 1 && s.lives(ctx, look.Feeds[0].URL):
		return look.Feeds[0].URL, nil, nil
	case len(look.Feeds) > 0 || look.Page:
		return "", nil, insteadOfFeed(address, look)
	}
	return address, nil, nil
}

// standing reports whether somebody asked for a subscription before, and why nothing of it could be read yet.
func (s *Server) standing(ctx context.Context, address string) (already bool, doubt, err error) {
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
			_, doubt = s.subs.Look(ctx, address)
		}
		return !c.Auto, doubt, nil
	}
	return false, nil, nil
}

// vain says whether what was seen at an address leaves nothing to subscribe to.
func vain(err error) bool {
	for _, is := range []error{ErrNotFeed, ErrNotPage, ErrRefused, ErrNotFound, ErrGone} {
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
