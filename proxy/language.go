package proxy

import (
	"net/http"
	"sync"

	"tidings/internal/locale"
)

const (
	languagePath = "/language"
	// languageCookie names the cookie that holds the language that a person has chosen. Its name is not only "language", because
	// programs on other ports of this machine get and set the same cookies.
	languageCookie = "tidings-language"
	// languageTime is how long a browser keeps that choice.
	languageTime = 365 * 24 * 60 * 60 // seconds
)

// languages returns the languages of the pages.
var languages = sync.OnceValue(locale.Load)

// language returns the language of a page: the one that the person has chosen, or the best one for the browser.
func (s *Server) language(r *http.Request) *locale.Language {
	chosen := ""
	if c, err := r.Cookie(languageCookie); err == nil {
		chosen = c.Value
	}
	return locale.Match(languages(), chosen, r.Header.Get("Accept-Language"))
}

// languageForm keeps the language that a person has chosen.
func (s *Server) languageForm(w http.ResponseWriter, r *http.Request) error {
	if err := chooseLanguage(w, r); err != nil {
		return err
	}
	http.Redirect(w, r, ownPage(r.PostForm.Get("back"), "/"), http.StatusSeeOther)
	return nil
}

// chooseLanguage gives a browser the cookie of a language.
func chooseLanguage(w http.ResponseWriter, r *http.Request) error {
	chosen, err := formValue(w, r, "language")
	if err != nil {
		return err
	}
	if locale.Match(languages(), chosen, "").Tag != chosen {
		return refuse(http.StatusBadRequest, "there is no language %q", chosen)
	}
	http.SetCookie(w, &http.Cookie{Name: languageCookie, Value: chosen, Path: "/", MaxAge: languageTime, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return nil
}

// stateTexts holds the states of subscriptions and of the node, as pages show them.
var stateTexts = map[string]string{
	StateOK: locale.Key("ok"), StateNew: locale.Key("new"), StateUnsaved: locale.Key("unsaved"), StateCutOff: locale.Key("cut off"), StateRefused: locale.Key("refused"),
	"trouble": locale.Key("trouble"), "joining": locale.Key("joining"), "unreachable": locale.Key("unreachable"), "missing": locale.Key("missing"),
	"gone": locale.Key("gone"), "limited": locale.Key("limited"), "failing": locale.Key("failing"), "not a feed": locale.Key("not a feed"),
	"broken": locale.Key("broken"), "too large": locale.Key("too large"), "idle": locale.Key("idle"),
	"key changed": locale.Key("key changed"), "incomplete": locale.Key("incomplete"), "publisher silent": locale.Key("publisher silent"), "problem": locale.Key("problem"),
}

// stateText returns a state as pages show it.
func stateText(state string) locale.Text {
	if text := stateTexts[state]; text != "" {
		return locale.Say(text)
	}
	return locale.Verbatim(state)
}
