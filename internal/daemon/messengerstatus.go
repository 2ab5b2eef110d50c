package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"tidings/internal/locale"
	"tidings/internal/xmpp"
	"tidings/proxy"
)

// XMPP says by which account a node talks with people.
type XMPP struct {
	// JID is the account. Default empty: the node talks with nobody.
	JID string
	// PasswordFile is the file with the account's password. It has no default.
	PasswordFile string
	// Server is the address of the server, HOST:PORT. Default empty: DNS knows it.
	Server string
	// Allow are the accounts that may give commands. Default none: those in the contact list of the account.
	Allow []string
}

func (x XMPP) validate(http string) error {
	switch {
	case x.JID == "" && (x.PasswordFile != "" || x.Server != "" || len(x.Allow) > 0):
		return errors.New("--xmpp-jid is missing: the other settings of the messenger need the account of the node, such as news@chat.example")
	case x.JID == "":
		return nil
	case x.PasswordFile == "":
		return errors.New("--xmpp-password-file is missing: give the file with the password of " + x.JID)
	case http == noHTTP:
		return errors.New("the messenger needs the server of the node: leave out --http none, or --xmpp-jid")
	}
	if _, _, err := net.SplitHostPort(x.Server); x.Server != "" && err != nil {
		return fmt.Errorf("--xmpp-server %q is not HOST:PORT, such as chat.example:5222", x.Server)
	}
	return xmpp.CheckAccounts(x.JID, x.Allow)
}

// maxPassword bounds the file of the password in bytes.
const maxPassword = 4 << 10

// password reads the password of the account.
func (x XMPP) password() (string, error) {
	f, err := os.Open(x.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("the file of --xmpp-password-file: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxPassword))
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSuffix(line, "\r"); err == nil && line == "" {
		err = errors.New("its first line is empty; it must be the password")
	}
	if err != nil {
		return "", fmt.Errorf("the file %s of --xmpp-password-file: %w", x.PasswordFile, err)
	}
	return line, nil
}

// Status returns how the messenger is; see proxy.Config. A nil messenger returns nil.
func (m *messenger) Status() *proxy.Messenger {
	if m == nil {
		return nil
	}
	state := m.client.State()
	s := &proxy.Messenger{Account: m.client.Account(), Connected: state.Connected, Since: proxy.OptionalTime(state.Since), Error: state.Error, Contacts: []proxy.MessengerContact{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.contacts {
		sent, _ := m.courier.State(c.ID)
		s.Contacts = append(s.Contacts, proxy.MessengerContact{
			Account: c.JID, Available: m.client.Available(c.JID), Paused: c.Paused, Feeds: nonNil(c.Feeds), Queries: nonNil(c.Queries),
			LastSent: proxy.OptionalTime(sent.LastSent), Error: sent.Error, Missed: sent.Missed,
		})
	}
	slices.SortFunc(s.Contacts, func(a, b proxy.MessengerContact) int { return strings.Compare(a.Account, b.Account) })
	return s
}

func nonNil(texts []string) []string { return append([]string{}, texts...) }

// patience is how long the messenger may be without a session before the doctor says so, unless the server refuses it.
const patience = time.Minute

// findings returns what the doctor says about the messenger.
func (m *messenger) findings(now time.Time) (findings []proxy.Finding) {
	if m == nil {
		return nil
	}
	add := func(level string, what, do locale.Text) {
		findings = append(findings, proxy.Finding{Level: level, What: what, Do: do})
	}
	if _, err := os.Stat(m.path + damagedFileEnd); err == nil {
		add(levelNote, locale.Say("the file with the contacts of the messenger was damaged and set aside: %s", m.path+damagedFileEnd), locale.Say("ask the contacts to subscribe again, and then delete the damaged file"))
	}
	s := m.client.State()
	switch {
	case s.Refused:
		add(levelNote, locale.Say("the XMPP server refuses the login of %s: %s", m.client.Account(), s.Error),
			locale.Say("check that the account exists, and that the first line of the file of --xmpp-password-file is its password; the node reads the file again and tries again within a quarter of an hour, or when it is started again. If the server knows no SCRAM, this account cannot be used"))
	case !s.Connected && now.Sub(s.Since) >= patience && s.Error != "":
		add(levelNote, locale.Say("the messenger %s is not connected: %s", m.client.Account(), s.Error),
			locale.Say("check that the XMPP server runs and that its certificate is valid for the domain of the account; if DNS does not name the server, give its address with --xmpp-server. News waits, and the node tries again by itself"))
	case !s.Connected:
		what := locale.Say("the messenger %s is not connected yet", m.client.Account())
		if s.Error != "" {
			what = locale.Say("the messenger %s is not connected yet: %s", m.client.Account(), s.Error)
		}
		add(levelOK, what, nil)
	default:
		add(levelOK, locale.Say("the messenger %s is connected; %s", m.client.Account(), locale.Say("%d contacts are available", s.Available)), nil)
	}
	return findings
}
