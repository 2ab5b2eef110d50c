package proxy

import (
	"net/http"
	"slices"
	"strings"

	"tidings/internal/locale"
)

// NotifyPath is the path of the page of notifications.
const NotifyPath = "/notify"

const (
	notifyRemovePath = NotifyPath + "/remove"
	notifyTestPath   = NotifyPath + "/test"
)

// A notifyPage is the page of notifications.
type notifyPage struct {
	Targets   []targetView
	Feeds     []channelView // some that a new target can be told of; see suggestions
	Watches   []Watch       // the same for searches
	Messenger *Messenger    // nil: there is none
	Added     *NotifyTarget // the target that was just added
	DeadOf    string        // id of the target whose dead letters are shown; "": none are
	Dead      []DeadLetter
}

const (
	// maxTargetSources bounds the feeds, and the searches, that the page shows of a target.
	maxTargetSources = 10
	// maxShownDead bounds the dead letters that the page shows, the newest ones.
	maxShownDead = 100
)

// notify shows the targets, and the dead letters of one.
func (s *Server) notify(w http.ResponseWriter, r *http.Request) error {
	p := notifyPage{DeadOf: r.URL.Query().Get("dead")}
	if p.DeadOf != "" {
		var err error
		if p.Dead, err = s.config.Notifications.DeadLetters(p.DeadOf); err != nil {
			return err
		}
		slices.Reverse(p.Dead)
		p.Dead = p.Dead[:min(len(p.Dead), maxShownDead)]
	}
	return s.showNotify(w, r, p)
}

// showNotify completes the page and writes it.
func (s *Server) showNotify(w http.ResponseWriter, r *http.Request, p notifyPage) error {
	var field fieldFinder
	err := s.subs.Each(r.Context(), field.see)
	if err == nil {
		p.Feeds, err = s.suggestions(r, &field)
	}
	if err != nil {
		return err
	}
	page, err := s.watches(r, WatchList{Limit: maxSuggestions})
	if err != nil {
		return err
	}
	p.Watches = page.Watches
	for _, t := range s.config.Notifications.Targets() {
		p.Targets = append(p.Targets, newTargetView(t))
	}
	if s.config.Messenger != nil {
		p.Messenger = s.config.Messenger()
	}
	return s.writePage(w, r, http.StatusOK, "notify.html", locale.Say("Notifications"), p)
}

// A targetView is a target as the page shows it.
type targetView struct {
	NotifyTarget
	More int // feeds and searches that are not shown
}

// Times returns when the target is told.
func (t targetView) Times() locale.Text {
	switch t.Digest {
	case "":
		return locale.Say("at once")
	case "daily":
		return locale.Say("daily")
	case "weekly":
		return locale.Say("weekly")
	}
	return locale.Verbatim(t.Digest)
}

func newTargetView(t NotifyTarget) targetView {
	v := targetView{NotifyTarget: t}
	v.Feeds, v.Queries = t.Feeds[:min(len(t.Feeds), maxTargetSources)], t.Queries[:min(len(t.Queries), maxTargetSources)]
	v.More = len(t.Feeds) + len(t.Queries) - len(v.Feeds) - len(v.Queries)
	return v
}

// notifyForm adds a target. The page that answers shows its secret, so it is not a redirect.
func (s *Server) notifyForm(w http.ResponseWriter, r *http.Request) error {
	to, err := formValue(w, r, "to")
	if err != nil {
		return err
	}
	f := r.PostForm
	feeds, err := s.typedFeeds(r, f["feed"])
	if err != nil {
		return err
	}
	queries := slices.DeleteFunc(f["query"], func(q string) bool { return strings.TrimSpace(q) == "" })
	added, err := s.addTarget(r, NotifyTarget{
		To: to, Feeds: feeds, Queries: queries, Health: f.Get("health") != "",
		QuietHours: strings.TrimSpace(f.Get("quiet_hours")), Digest: f.Get("digest"),
	})
	if err != nil {
		return err
	}
	return s.showNotify(w, r, notifyPage{Added: &added})
}

func (s *Server) notifyRemoveForm(w http.ResponseWriter, r *http.Request) error {
	id, err := formValue(w, r, "id")
	if err == nil {
		err = s.config.Notifications.RemoveTarget(id)
	}
	if err == nil {
		http.Redirect(w, r, NotifyPath, http.StatusSeeOther)
	}
	return err
}

func (s *Server) notifyTestForm(w http.ResponseWriter, r *http.Request) error {
	id, err := formValue(w, r, "id")
	if err == nil {
		err = s.config.Notifications.TestTarget(r.Context(), id)
	}
	if err == nil {
		s.redirectWith(w, r, NotifyPath, message{Text: locale.Say("The target %s has taken the message", id)})
	}
	return err
}
