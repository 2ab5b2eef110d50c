package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tidings/internal/locale"
)

const (
	subscriptionsPath = "/subscriptions"
	describePath      = "/describe"
	undoPath          = "/undo"
)

// subscriptionsPage shows the subscriptions, a page at a time.
func (s *Server) subscriptionsPage(w http.ResponseWriter, r *http.Request) error {
	f := newFinder(parseListQuery(r.URL.Query()))
	if err := s.subs.Each(r.Context(), f.see); err != nil {
		return err
	}
	l, err := s.listing(r, f, listRows)
	if err != nil {
		return err
	}
	return s.writePage(w, r, http.StatusOK, "subscriptions.html", locale.Say("Subscriptions"), l)
}

// maxSelection bounds a form with the addresses of selected subscriptions, in bytes. All those of a page fit unless their
// addresses are unusually long.
const maxSelection = 256 << 10

// These are the actions of subscriptionsForm on the selected subscriptions.
const (
	doAddTag      = "tag"
	doRemoveTag   = "untag"
	doExport      = "export"
	doPoll        = "poll"
	doUnsubscribe = "unsubscribe"
)

// subscriptionsForm changes the subscriptions that a person has selected, or exports them.
func (s *Server) subscriptionsForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r, maxSelection); err != nil {
		return err
	}
	selected, back := r.PostForm["url"], ownPage(r.PostForm.Get("back"), subscriptionsPath)
	do := r.PostForm.Get("do")
	if one := r.PostForm.Get("one"); one != "" { // the button of one row, whatever else is selected
		selected, do = []string{one}, doUnsubscribe
	}
	if len(selected) == 0 {
		s.redirectWith(w, r, back, message{Text: locale.Say("No subscription is selected: check the boxes of some first"), Problem: true})
		return nil
	}
	switch do {
	case doUnsubscribe:
		return s.unsubscribeFrom(w, r, selected, back)
	case doPoll:
		return s.pollSelected(w, r, selected, back)
	case doExport:
		return s.exportSelected(w, r, selected)
	case doAddTag, doRemoveTag:
		return s.changeTag(w, r, selected, back, do == doAddTag)
	}
	return refuse(http.StatusBadRequest, "the form does not say what to do with the selected subscriptions")
}

// unsubscribeFrom ends subscriptions, and offers to undo that. One that has ended meanwhile is left out.
func (s *Server) unsubscribeFrom(w http.ResponseWriter, r *http.Request, addresses []string, back string) error {
	var ended []string
	existing, err := s.subscriptionsTo(r.Context(), addresses) // for the title
	if err != nil {
		return err
	}
	var failed error
	for _, address := range addresses {
		err := s.subs.Unsubscribe(r.Context(), address)
		if err == nil {
			ended = append(ended, address)
		} else if len(addresses) == 1 || !errors.Is(err, ErrNoSubscription) {
			failed = err
			break
		}
	}
	if failed != nil && len(ended) == 0 {
		return failed
	}
	text := locale.Say("Unsubscribed from %s", locale.Say("%d feeds", len(ended)))
	if len(addresses) == 1 {
		text = locale.Say("Unsubscribed from %s", titleOrAddress(existing[addresses[0]].Title, addresses[0]))
	}
	m := partly(text, failed)
	m.Undo = ended
	s.redirectWith(w, r, back, m)
	return nil
}

// partly returns the message about a change of several subscriptions that has stopped at one of them; failed says why, and
// is nil if it has not.
func partly(text locale.Text, failed error) message {
	if failed == nil {
		return message{Text: text}
	}
	return message{Text: locale.Say("%s, and the others are as they were: %s", text, oneLine(failed.Error())), Problem: true}
}

// findChannel returns the subscription to an address.
func (s *Server) findChannel(ctx context.Context, address string) (Channel, error) {
	found, err := s.subscriptionsTo(ctx, []string{address})
	if err != nil {
		return Channel{}, err
	}
	c, ok := found[address]
	if !ok {
		return Channel{}, refuse(http.StatusNotFound, "there is no subscription to %s", oneLine(address))
	}
	return c, nil
}

// exportSelected sends an OPML file of some subscriptions.
func (s *Server) exportSelected(w http.ResponseWriter, r *http.Request, addresses []string) error {
	part, err := s.subs.ListPart(r.Context(), ListQuery{Limit: len(addresses), URLs: addresses})
	if err != nil {
		return err
	}
	list := opmlList{rewrite: true, private: true}
	for i := range s.completeAll(r, part.Channels) {
		list.add(&part.Channels[i])
	}
	list.write(w)
	return nil
}

// changeTag adds a tag to subscriptions, or removes it.
func (s *Server) changeTag(w http.ResponseWriter, r *http.Request, addresses []string, back string, add bool) error {
	tag := r.PostForm.Get("tag")
	if err := checkTags([]string{tag}); err != nil {
		return err
	}
	if tag = oneLine(tag); tag == "" {
		s.redirectWith(w, r, back, message{Text: locale.Say("No tag is given: type one first"), Problem: true})
		return nil
	}
	existing, err := s.subscriptionsTo(r.Context(), addresses)
	if err != nil {
		return err
	}
	var failed error
	changed := 0
	for _, address := range addresses {
		c, ok := existing[address]
		if !ok || slices.Contains(c.Tags, tag) == add {
			continue
		}
		tags := slices.Clone(c.Tags)
		if add {
			tags = append(tags, tag)
		} else {
			tags = slices.DeleteFunc(tags, func(t string) bool { return t == tag })
		}
		if failed = checkTags(tags); failed == nil {
			failed = s.subs.Describe(r.Context(), address, Description{Tags: normalizeTags(tags)})
		}
		if failed != nil {
			break
		}
		changed++
	}
	if failed != nil && changed == 0 {
		return failed
	}
	of := locale.Say("%d subscriptions", changed)
	text := locale.Say("Removed the tag %s from %s", tag, of)
	if add {
		text = locale.Say("Added the tag %s to %s", tag, of)
	}
	s.redirectWith(w, r, back, partly(text, failed))
	return nil
}

// describeForm changes the title, the tags and the note of a subscription.
func (s *Server) describeForm(w http.ResponseWriter, r *http.Request) error {
	address, err := s.formAddress(w, r)
	if err != nil {
		return err
	}
	known, err := s.findChannel(r.Context(), address)
	if err != nil {
		return err
	}
	tags := strings.Split(r.PostForm.Get("tags"), "\n")
	tags = slices.DeleteFunc(tags, func(tag string) bool { return oneLine(tag) == "" })
	if err := checkTags(tags); err != nil {
		return err
	}
	said := Description{Tags: normalizeTags(tags)}
	if title := oneLine(r.PostForm.Get("title")); title != oneLine(known.Title) { // the feed's own title does not become one of the user
		if len(title) > maxTitle {
			return refuse(http.StatusBadRequest, "a title has at most %d bytes, and this one has %d", maxTitle, len(title))
		}
		said.Title, said.OwnTitle = title, title == ""
	}
	if note := strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get("note"), "\r\n", "\n")); r.PostForm.Has("note") && note != known.Note {
		if len(note) > maxNote {
			return refuse(http.StatusBadRequest, "a note has at most %d bytes, and this one has %d", maxNote, len(note))
		}
		said.Note = &note
	}
	if err := s.subs.Describe(r.Context(), address, said); err != nil {
		return err
	}
	s.redirectWith(w, r, "/show?url="+url.QueryEscape(address), message{Text: locale.Say("Saved")})
	return nil
}
