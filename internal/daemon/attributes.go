package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"

	"tidings/feedtree"
	"tidings/proxy"
)

// attributes are stored with a subscription.
type attributes struct {
	Auto  bool `json:"auto,omitempty"`  // made by reading
	Quiet bool `json:"quiet,omitempty"` // followed through members that stand between
	// Tentative marks a subscription made by publishing, as long as no item was accepted.
	Tentative bool `json:"tentative,omitempty"`
	// Messenger marks a subscription made for contacts of the messenger. It ends with the last of them.
	Messenger bool `json:"messenger,omitempty"`
	// RequiredProvenance is the provenance without which items are not shown; empty: any.
	RequiredProvenance string   `json:"least,omitempty"`
	Tags               []string `json:"tags,omitempty"`
	// Title and Site are the user's own, and are shown in place of the feed's.
	Title    string `json:"title,omitempty"`
	Site     string `json:"site,omitempty"`
	Note     string `json:"note,omitempty"` // the user's own, too
	LastRead int64  `json:"read,omitempty"` // when the feed was last read, Unix time in seconds, up to lapseCheckInterval late
}

// describe adds the user's description.
func (a *attributes) describe(d proxy.Description) {
	if d.Tags != nil {
		a.Tags = d.Tags
	}
	if a.Title, a.Site = cmp.Or(d.Title, a.Title), cmp.Or(d.Site, a.Site); d.OwnTitle {
		a.Title = d.Title
	}
	if d.Note != nil {
		a.Note = *d.Note
	}
}

func (a attributes) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("daemon: attributes: %v", err)) // all fields can be encoded
	}
	return b
}

func attributesOf(s feedtree.Subscription) (a attributes) {
	_ = json.Unmarshal(s.Attributes, &a) // unreadable attributes count as none
	return a
}

// attributes returns the attributes of a subscription without decoding them again. The loop calls it.
func (s *subscriptions) attributes(f feedtree.Subscription) attributes {
	if r := s.byKey[f.Key]; r != nil && r.subscribed {
		return r.attributes
	}
	return attributesOf(f)
}

// rank says who wants a subscription: nobody who asked for it, contacts of the messenger, or the node's user.
func (a attributes) rank() int {
	switch {
	case a.Auto || a.Tentative:
		return 0
	case a.Messenger:
		return 1
	}
	return 2
}
