package xmpp

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mellium.im/xmlstream"
	mellium "mellium.im/xmpp"
	"mellium.im/xmpp/jid"
	"mellium.im/xmpp/ping"
	"mellium.im/xmpp/roster"
	"mellium.im/xmpp/stanza"
)

// A session is one login.
type session struct {
	owner *Client
	link  *mellium.Session
	conn  *boundedConn
	alive context.Context // ends with the session

	mu       sync.Mutex        // guards the fields below
	roster   map[string]string // the contact list: how each account is subscribed to presence
	online   map[string][]device
	asked    map[string]bool  // accounts that were asked for their presence
	inFlight map[string]error // by id of a message that is not confirmed: the error with which it came back, or nil
}

// A device is a client of a contact that is available. Those that came or changed last are at the end.
type device struct {
	resource string
	priority int
}

const (
	// maxDevices bounds the clients of one contact. The oldest is forgotten.
	maxDevices = 20
	// maxText bounds a message of a contact in bytes. What is longer is cut, and no command.
	maxText = 8 << 10
)

func newSession(alive context.Context, c *Client, link *mellium.Session, conn *boundedConn) *session {
	return &session{
		owner: c, link: link, conn: conn, alive: alive, roster: map[string]string{}, online: map[string][]device{},
		asked: map[string]bool{}, inFlight: map[string]error{},
	}
}

// begin reads the contact list.
func (s *session) begin() error {
	ctx, cancel := context.WithTimeout(s.alive, loginTime)
	defer cancel()
	list := roster.Fetch(ctx, s.link)
	items := map[string]string{}
	for list.Next() {
		items[list.Item().JID.Bare().String()] = list.Item().Subscription
	}
	if err := errors.Join(list.Err(), list.Close()); err != nil {
		return fmt.Errorf("read the contact list: %w", err)
	}
	s.conn.refill()
	s.mu.Lock()
	defer s.mu.Unlock()
	for account, subscription := range items {
		s.roster[account] = subscription
	}
	return nil
}

// arrive makes the client available. The server then tells which contacts are.
func (s *session) arrive() error {
	ctx, cancel := context.WithTimeout(s.alive, loginTime)
	defer cancel()
	return s.link.Send(ctx, stanza.Presence{}.Wrap(nil))
}

// watch pings the server until the session ends or the server does not answer.
func (s *session) watch() error {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.alive.Done():
			return nil
		}
		ctx, cancel := context.WithTimeout(s.alive, loginTime)
		err := s.ping(ctx, s.owner.account.Domain())
		cancel()
		if _, answered := errors.AsType[stanza.Error](err); err != nil && !answered {
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// ping returns when somebody has answered a ping. An answer that is an error is a stanza.Error.
func (s *session) ping(ctx context.Context, to jid.JID) error {
	err := s.link.UnmarshalIQ(ctx, ping.IQ{IQ: stanza.IQ{Type: stanza.GetIQ, To: to}}.TokenReader(), nil)
	s.conn.refill()
	return err
}

// allows reports whether the client talks with an account. The caller holds the mutex of the session.
func (s *session) allows(account string) bool {
	if len(s.owner.allow) > 0 {
		return slices.Contains(s.owner.allow, account)
	}
	switch s.roster[account] {
	case "both", "from", "to":
		return true
	}
	return false
}

// client returns the address of the client of a contact that gets messages: the one with the highest priority, and of
// those the last one that said something. Clients with a negative priority get none.
func (s *session) client(contact string) (to jid.JID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.allows(contact) {
		return to, false
	}
	best := device{priority: -1}
	for _, d := range s.online[contact] {
		if d.priority >= 0 && d.priority >= best.priority {
			best, ok = d, true
		}
	}
	if !ok {
		return to, false
	}
	to, err := jid.Parse(contact)
	if err == nil {
		to, err = to.WithResource(best.resource)
	}
	return to, err == nil
}

// available returns how many contacts are available.
func (s *session) available() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.online)
}

// send sends a message to a contact and waits for its confirmation.
func (s *session) send(ctx context.Context, contact string, m Message) error {
	to, ok := s.client(contact)
	if !ok {
		return ErrAway
	}
	s.mu.Lock()
	s.inFlight[m.ID] = nil
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.inFlight, m.ID)
	}()
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	if err := s.write(ctx, to, m.ID, m.Body); err != nil {
		return err
	}
	err := s.ping(ctx, to)
	s.mu.Lock()
	returned := s.inFlight[m.ID]
	s.mu.Unlock()
	now, still := s.client(contact)
	switch answer, answered := errors.AsType[stanza.Error](err); {
	case returned != nil: // a message that comes back does so before the answer to the ping
		return fmt.Errorf("the message came back: %w", returned)
	case err == nil:
		return nil
	case s.alive.Err() != nil:
		return errors.New("the session ended before the contact's client confirmed the message")
	case answered && still && now.Equal(to) && (answer.Condition == stanza.ServiceUnavailable || answer.Condition == stanza.FeatureNotImplemented):
		// The client does not know pings. If the server had answered in its place, it would have said before that the
		// client is not available any more.
		return nil
	case answered:
		return fmt.Errorf("the contact's client did not confirm the message: %s", answer.Condition)
	case ctx.Err() != nil:
		return fmt.Errorf("the contact's client did not confirm the message within %v", confirmTime)
	}
	return err
}

// write sends a message; an empty id stands for one that nobody needs to know.
func (s *session) write(ctx context.Context, to jid.JID, id, text string) error {
	body := xmlstream.Wrap(xmlstream.Token(xml.CharData(text)), xml.StartElement{Name: xml.Name{Local: "body"}})
	err := s.link.Send(ctx, stanza.Message{ID: id, To: to, Type: stanza.ChatMessage}.Wrap(body))
	if err != nil {
		_ = s.conn.Close() // half a stanza may have been sent
	}
	return err
}

// HandleXMPP is called with each stanza that is not the answer to one of ours.
func (s *session) HandleXMPP(t xmlstream.TokenReadEncoder, start *xml.StartElement) error {
	s.conn.refill()
	tokens, err := xmlstream.ReadAll(t)
	if err != nil {
		return err
	}
	rest := make([]xml.TokenReader, len(tokens))
	for i, token := range tokens {
		rest[i] = xmlstream.Token(token)
	}
	answer, err := s.take(xmlstream.MultiReader(rest...), start)
	if err != nil || answer == nil {
		return nil //nolint:nilerr // a stanza that says nothing of use must not end the session
	}
	_, err = xmlstream.Copy(t, answer)
	return err
}

// take reads a stanza. It returns what is to be sent because of it.
func (s *session) take(rest xml.TokenReader, start *xml.StartElement) (answer xml.TokenReader, err error) {
	d := xml.NewTokenDecoder(xmlstream.MultiReader(xmlstream.Token(*start), rest))
	switch start.Name.Local {
	case "message":
		var m inMessage
		if err = d.Decode(&m); err == nil {
			answer = s.heard(m)
		}
	case "presence":
		var p inPresence
		if err = d.Decode(&p); err == nil {
			answer = s.present(p)
		}
	case "iq":
		var q inQuery
		if err = d.Decode(&q); err == nil {
			answer = s.query(q)
		}
	}
	return answer, err
}

// Stanzas as they are read.
type (
	inMessage struct {
		From  string        `xml:"from,attr"`
		ID    string        `xml:"id,attr"`
		Type  string        `xml:"type,attr"`
		Body  string        `xml:"body"`
		Error *stanza.Error `xml:"error"`
	}
	inPresence struct {
		From     string `xml:"from,attr"`
		Type     string `xml:"type,attr"`
		Priority int    `xml:"priority"`
	}
	inQuery struct {
		From string    `xml:"from,attr"`
		ID   string    `xml:"id,attr"`
		Type string    `xml:"type,attr"`
		Ping *struct{} `xml:"urn:xmpp:ping ping"`
		List *struct {
			Items []struct {
				JID          string `xml:"jid,attr"`
				Subscription string `xml:"subscription,attr"`
			} `xml:"item"`
		} `xml:"jabber:iq:roster query"`
	}
)

// heard takes a message. It returns what is to be sent because of it.
func (s *session) heard(m inMessage) xml.TokenReader {
	from, err := jid.Parse(m.From)
	if err != nil {
		return nil
	}
	contact := from.Bare().String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Type == string(stanza.ErrorMessage) {
		if _, sent := s.inFlight[m.ID]; sent {
			s.inFlight[m.ID] = errors.New("an error without a reason")
			if m.Error != nil {
				s.inFlight[m.ID] = fmt.Errorf("%s", m.Error.Condition)
			}
		}
		return nil
	}
	talk := m.Type == "" || m.Type == string(stanza.ChatMessage) || m.Type == string(stanza.NormalMessage)
	text := strings.TrimSpace(m.Body)
	if !talk || text == "" || contact == s.owner.Account() || !s.allows(contact) {
		return nil
	}
	s.owner.config.Heard(contact, text[:min(len(text), maxText)])
	return s.ask(contact)
}

// ask returns a request to see the presence of a contact, if it is needed and was not made in this session. The caller
// holds the mutex.
func (s *session) ask(contact string) xml.TokenReader {
	if sub := s.roster[contact]; sub == "both" || sub == "to" || s.asked[contact] {
		return nil
	}
	s.asked[contact] = true
	to, err := jid.Parse(contact)
	if err != nil {
		return nil
	}
	return stanza.Presence{Type: stanza.SubscribePresence, To: to}.Wrap(nil)
}

// present notes whether a contact is available. It returns what is to be sent because of it.
func (s *session) present(p inPresence) xml.TokenReader {
	answer, came := s.note(p)
	if came != "" {
		s.owner.config.Came(came)
	}
	return answer
}

// note is present without the call for a contact that has become available.
func (s *session) note(p inPresence) (answer xml.TokenReader, came string) {
	from, err := jid.Parse(p.From)
	contact := from.Bare().String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || contact == s.owner.Account() || !s.allows(contact) {
		return nil, ""
	}
	switch stanza.PresenceType(p.Type) {
	case stanza.SubscribePresence: // the contact wants to see whether the node is there
		granted := stanza.Presence{Type: stanza.SubscribedPresence, To: from.Bare()}.Wrap(nil)
		if asked := s.ask(contact); asked != nil {
			return xmlstream.MultiReader(granted, asked), ""
		}
		return granted, ""
	case stanza.UnavailablePresence, stanza.ErrorPresence:
		s.forget(contact, from.Resourcepart())
	case stanza.AvailablePresence:
		if from.Resourcepart() == "" {
			return nil, ""
		}
		s.forget(contact, from.Resourcepart())
		devices := append(s.online[contact], device{from.Resourcepart(), p.Priority})
		s.online[contact] = devices[max(0, len(devices)-maxDevices):]
		return nil, contact
	}
	return nil, ""
}

// forget notes that a client of a contact is not available, or that none is. The caller holds the mutex.
func (s *session) forget(contact, resource string) {
	var left []device
	for _, d := range s.online[contact] {
		if resource != "" && d.resource != resource {
			left = append(left, d)
		}
	}
	if s.online[contact] = left; len(left) == 0 {
		delete(s.online, contact)
	}
}

// query answers the server's changes of the contact list, and pings. The library refuses the rest.
func (s *session) query(q inQuery) xml.TokenReader {
	from, err := jid.Parse(q.From)
	if q.From != "" && err != nil {
		return nil
	}
	done := stanza.IQ{ID: q.ID, To: from, Type: stanza.ResultIQ}.Wrap(nil)
	switch {
	case q.Ping != nil && q.Type == string(stanza.GetIQ):
		return done
	case q.List == nil || q.Type != string(stanza.SetIQ):
		return nil
	case q.From != "" && !from.Equal(s.owner.account): // only the own account may change the list (RFC 6121, section 2.1.6)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range q.List.Items {
		j, err := jid.Parse(i.JID)
		if err != nil {
			continue
		}
		contact := j.Bare().String()
		if i.Subscription == "remove" || i.Subscription == "none" {
			delete(s.roster, contact)
			delete(s.asked, contact)
			if !s.allows(contact) {
				delete(s.online, contact)
			}
			continue
		}
		s.roster[contact] = i.Subscription
	}
	return done
}
