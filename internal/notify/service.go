package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/discord"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/mattermost"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/rocketchat"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/slack"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/telegram"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/gotify"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/ntfy"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/pushbullet"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/pushover"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

const (
	// serviceBatch is the largest number of messages that a service gets as one, so that a flood does not fill a phone.
	serviceBatch = 200
	// servicePause is the time between two messages to a service. Discord allows 30 a minute, ntfy.sh 12.
	servicePause = 10 * time.Second
)

// services are the services that the library knows and that can be reached safely, by the schemes of their addresses. Each
// gets a client that dials as a Sender does; those for which the library does not provide that send to one host of their own,
// which no user names.
var services = map[string]struct {
	make  func() types.Service
	use   func(types.Service, *http.Client)
	host  bool // the host in the address is that of a server, and no secret
	title bool // a message has a title of its own
}{
	"discord": {make: func() types.Service { return &discord.Service{} }, use: func(s types.Service, c *http.Client) {
		d := s.(*discord.Service)
		d.HTTPClient, d.Sleeper = c, noSleep{} // the caller tries again
	}},
	"gotify":     {make: func() types.Service { return &gotify.Service{} }, use: replaceTransport, host: true, title: true},
	"mattermost": {make: func() types.Service { return &mattermost.Service{} }, use: replaceTransport, host: true},
	"ntfy": {make: func() types.Service { return &ntfy.Service{} }, use: func(s types.Service, c *http.Client) {
		s.(*ntfy.Service).SetHTTPClient(c)
	}, host: true, title: true},
	"pushbullet": {make: func() types.Service { return &pushbullet.Service{} }, title: true},
	"pushover": {make: func() types.Service { return &pushover.Service{} }, use: func(s types.Service, c *http.Client) {
		s.(*pushover.Service).Client = c
	}, title: true},
	"rocketchat": {make: func() types.Service { return &rocketchat.Service{} }, use: func(s types.Service, c *http.Client) {
		s.(*rocketchat.Service).Client = c
	}, host: true},
	"slack":    {make: func() types.Service { return &slack.Service{} }},
	"telegram": {make: func() types.Service { return &telegram.Service{} }},
}

// replaceTransport makes a service use the transport of a client, and treat redirects as it does.
func replaceTransport(s types.Service, c *http.Client) {
	own := s.(interface{ GetHTTPClient() *http.Client }).GetHTTPClient()
	own.Transport, own.CheckRedirect = c.Transport, c.CheckRedirect
}

type noSleep struct{}

func (noSleep) Sleep(time.Duration) {}

// serviceNames returns the schemes of services.
func serviceNames() string {
	names := []string{"matrix"}
	for name := range services {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// service returns the target at an address of a service.
func (s *Sender) service(u *url.URL) (*Target, error) {
	kind := services[u.Scheme]
	open := func(client *http.Client) (service types.Service, err error) {
		defer func() {
			if recover() != nil { // the library reads addresses of strangers; a fault of it must not end the node
				err = errors.New("it is not one of this service")
			}
		}()
		own := *u // the library may change it
		service = kind.make()
		if err := service.Initialize(&own, log.New(io.Discard, "", 0)); err != nil { //nolint:misspell // a name of the library
			return nil, errors.New(withoutSecrets(err.Error(), u))
		}
		if kind.use != nil && client != nil {
			kind.use(service, client)
		}
		return service, nil
	}
	if _, err := open(nil); err != nil {
		return nil, fmt.Errorf("the address of the %s target is not valid: %w; https://shoutrrr.nickfedor.com says how one is written", u.Scheme, err)
	}
	shown := u.Scheme + "://…"
	if kind.host {
		shown = u.Scheme + "://" + hostOf(u) + "/…"
	}
	send := func(ctx context.Context, messages []Message) error {
		ctx, cancel := context.WithTimeout(ctx, sendTime)
		defer cancel()
		watched := &watchedTransport{ctx: ctx, to: s.client.Transport, allowHTTP: s.config.AllowPrivate}
		service, err := open(&http.Client{Transport: watched, CheckRedirect: s.client.CheckRedirect})
		if err != nil {
			return &Failure{Text: err.Error()}
		}
		params := types.Params{}
		if kind.title {
			params.SetTitle(excerpt(messages[0].Source, maxTitle/2))
			if len(messages) > 1 {
				params.SetTitle("tidings")
			}
		}
		done := make(chan error, 1)
		go func() { // the library does not end with ctx, but within ten seconds or so
			defer func() {
				if fault := recover(); fault != nil {
					done <- errors.New("the library for this service failed")
				}
			}()
			done <- service.Send(brief(messages), &params)
		}()
		select {
		case err = <-done:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err == nil {
			return nil
		}
		return watched.failure(err, u)
	}
	return &Target{Kind: u.Scheme, Shown: shown, Batch: serviceBatch, Pause: servicePause, Send: send}, nil
}

// errPlain says that a message, with its password, would be sent so that anybody on the way can read it.
var errPlain = errors.New("the service needs https; a node with --allow-private-origins accepts http for your own network")

// A watchedTransport sends requests until ctx ends, and notes the last answer.
type watchedTransport struct {
	ctx       context.Context
	to        http.RoundTripper
	allowHTTP bool

	mu   sync.Mutex
	last *Failure // what the last answer means; nil: it is good, or there is none
}

// RoundTrip implements [http.RoundTripper].
func (w *watchedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer *http.Response
	err := errPlain
	if w.allowHTTP || r.URL.Scheme == "https" {
		answer, err = w.to.RoundTrip(r.WithContext(w.ctx))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = nil
	if err != nil {
		w.last = failureOf(err)
	} else if answer.StatusCode/100 != 2 {
		w.last = statusFailure(answer, time.Now())
	}
	return answer, err
}

// failure returns why a service did not take a message.
func (w *watchedTransport) failure(err error, u *url.URL) *Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last != nil {
		return w.last
	}
	f := failureOf(err)
	f.Text = withoutSecrets(f.Text, u)
	return f
}

// addresses matches the addresses in a text.
var addresses = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"]+`)

// withoutSecrets removes from a text what an address has besides its scheme, and all addresses.
func withoutSecrets(text string, u *url.URL) string {
	text = addresses.ReplaceAllString(oneLine(text), "…")
	parts := []string{u.Host, u.Hostname(), u.User.Username()}
	if password, ok := u.User.Password(); ok {
		parts = append(parts, password)
	}
	parts = append(parts, strings.Split(u.Path, "/")...)
	for _, values := range u.Query() {
		for _, v := range values {
			parts = append(parts, strings.Split(v, ",")...)
		}
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	for _, p := range parts {
		if len(p) >= minSecret {
			text = strings.ReplaceAll(text, p, "…")
		}
	}
	return excerpt(text, maxExcerpt)
}

// minSecret is the size in bytes from which a part of an address is removed from texts. Shorter ones occur in any text.
const minSecret = 4
