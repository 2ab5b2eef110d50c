package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	netmail "net/mail"
	"net/url"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"
)

const (
	// mailBatch is the largest number of messages of one e-mail.
	mailBatch = 200
	// mailPause is the time between two e-mails to one target.
	mailPause = servicePause
	// maxMailHTML bounds the HTML of one message in an e-mail, in bytes. Of a longer one the mail has the beginning of the
	// text.
	maxMailHTML = 48 << 10
	// maxRecipients bounds the recipients of one target.
	maxRecipients = 20
)

// A mailbox is where e-mail of a target goes, and the server that takes it.
type mailbox struct {
	host     string
	port     int
	tls      bool // from the first byte
	plain    bool // never
	user     string
	password string
	from     string
	to       []string
}

// parseMailbox parses an address: smtp://USER:PASSWORD@HOST:PORT/?from=…&to=…, or smtps://… .
func parseMailbox(u *url.URL) (m mailbox, err error) {
	q := u.Query()
	m = mailbox{host: u.Hostname(), tls: u.Scheme == "smtps", user: u.User.Username()}
	m.password, _ = u.User.Password()
	m.port = map[bool]int{false: 587, true: 465}[m.tls]
	for name := range q {
		if name != "from" && name != "to" && name != "tls" {
			return m, errors.New("the address of an e-mail target has the parameters from, to and tls, and no others")
		}
	}
	switch {
	case m.host == "":
		return m, errors.New("the address of the e-mail target has no host: write smtp://USER:PASSWORD@HOST:587/?from=ADDRESS&to=ADDRESS")
	case q.Get("tls") == "none" && !m.tls:
		m.plain = true
	case q.Has("tls"):
		return m, errors.New("the parameter tls of an e-mail target can be none, with smtp://; otherwise leave it out")
	}
	if u.Port() != "" {
		m.port, _ = strconv.Atoi(u.Port()) // parseAddress has checked it
	}
	from, err := netmail.ParseAddress(q.Get("from"))
	if err != nil {
		return m, errors.New("the e-mail target has no sender, or not a valid one: add from=ADDRESS (write %2B for +)")
	}
	m.from = from.Address
	all, err := netmail.ParseAddressList(strings.Join(q["to"], ","))
	if err != nil || len(all) > maxRecipients {
		return m, fmt.Errorf("the e-mail target has no recipient, or not a valid one, or more than %d: add to=ADDRESS (write %%2B for +)", maxRecipients)
	}
	for _, a := range all {
		m.to = append(m.to, a.Address)
	}
	return m, nil
}

// mail returns a target that sends e-mail.
func (s *Sender) mail(u *url.URL) (*Target, error) {
	box, err := parseMailbox(u)
	switch {
	case err != nil:
		return nil, err
	case box.plain && !s.config.AllowPrivate:
		return nil, errors.New("e-mail without encryption is only for servers in your own network, at nodes with --allow-private-origins: leave out tls=none")
	}
	send := func(ctx context.Context, messages []Message) error {
		ctx, cancel := context.WithTimeout(ctx, sendTime)
		defer cancel()
		m, err := s.compose(box, messages)
		if err == nil {
			err = s.sendMail(ctx, box, m)
		}
		if err == nil {
			return nil
		}
		f := failureOf(err)
		f.Text = withoutSecrets(f.Text, &url.URL{User: url.UserPassword(box.user, box.password)})
		if refused, ok := errors.AsType[*mail.SendError](err); ok {
			f.Final = !refused.IsTemp() && refused.ErrorCode() >= 500 && (refused.Reason == mail.ErrSMTPData || refused.Reason == mail.ErrSMTPDataClose)
		}
		return f
	}
	return &Target{Kind: "mail", Shown: u.Scheme + "://" + hostOf(u) + " to " + printable(strings.Join(box.to, ", ")), Batch: mailBatch, Pause: mailPause, Send: send}, nil
}

// sendMail gives an e-mail to a server.
func (s *Sender) sendMail(ctx context.Context, box mailbox, m *mail.Msg) error {
	dial := func(dialling context.Context, network, address string) (net.Conn, error) {
		conn, err := s.dial(dialling, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() }) // the library does not look at ctx after this
		if box.tls {
			return tls.Client(conn, &tls.Config{ServerName: box.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}), nil
		}
		return conn, nil
	}
	options := []mail.Option{mail.WithPort(box.port), mail.WithTimeout(sendTime), mail.WithDialContextFunc(dial)}
	switch {
	case box.tls:
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic)) // the library then finds that there is TLS already
	case box.plain:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithTLSConfig(&tls.Config{ServerName: box.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}))
	}
	if box.user != "" {
		options = append(options, mail.WithUsername(box.user), mail.WithPassword(box.password), mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover))
		if box.plain {
			options = append(options, mail.WithSMTPAuth(mail.SMTPAuthPlainNoEnc))
		}
	}
	client, err := mail.NewClient(box.host, options...)
	if err != nil {
		return err
	}
	if err = client.DialAndSendWithContext(ctx, m); m.IsDelivered() {
		return nil // only the end of the connection failed
	}
	return err
}

// compose returns messages as one e-mail. Its Message-ID is made of their ids, so that programs know a mail that comes again.
func (s *Sender) compose(box mailbox, messages []Message) (*mail.Msg, error) {
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(m.FromFormat("tidings", box.from), m.To(box.to...)); err != nil {
		return nil, err
	}
	h := sha256.New()
	for i := range messages {
		h.Write([]byte(messages[i].ID + "\x00"))
	}
	domain := box.from[strings.LastIndexByte(box.from, '@')+1:]
	m.SetMessageIDWithValue(hex.EncodeToString(h.Sum(nil)[:16]) + "@" + domain)
	m.SetDate()
	m.SetUserAgent(s.config.Agent)
	m.Subject(headline(messages))
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	if s.config.Page != "" {
		m.SetListUnsubscribe(s.config.Page)
	}
	text, html, err := bodies(messages, s.config.Page)
	if err != nil {
		return nil, err
	}
	m.SetBodyString(mail.TypeTextPlain, text)
	m.AddAlternativeString(mail.TypeTextHTML, html)
	return m, nil
}

// mailPage is the HTML of an e-mail.
var mailPage = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{{.Subject}}</title></head><body>
{{range .Items}}<h2>{{if .Link}}<a href="{{.Link}}">{{.Title}}</a>{{else}}{{.Title}}{{end}}</h2>
<p>{{.Source}}, {{.Time}}</p>
{{if .HTML}}{{.HTML}}{{else}}<p>{{.Text}}</p>{{end}}
{{end}}<hr><p>{{if .Page}}<a href="{{.Page}}">Notifications of your node</a>{{else}}tidings notify list shows the notifications of your node.{{end}}</p>
</body></html>
`))

// bodies returns the text and the HTML of an e-mail. A single message is shown as a whole, of several the beginnings.
func bodies(messages []Message, page string) (text, html string, err error) {
	type item struct {
		Title, Source, Link, Time, Text string
		HTML                            template.HTML
	}
	data := struct {
		Subject, Page string
		Items         []item
	}{Subject: headline(messages), Page: page}
	var b strings.Builder
	for i := range messages {
		m := &messages[i]
		it := item{
			Title: excerpt(m.Title, maxTitle), Source: excerpt(m.Source, maxTitle), Link: link(m, maxAddress), Time: m.Time.Local().Format("Mon, 2 Jan 15:04"),
			Text: excerpt(m.body(), maxExcerpt),
		}
		if len(messages) == 1 && len(m.HTML) <= maxMailHTML {
			it.HTML = template.HTML(m.HTML) // its writer has made it safe
		}
		data.Items = append(data.Items, it)
		for _, line := range []string{it.Title, it.Source + ", " + it.Time, it.Link, it.Text} {
			if line != "" {
				b.WriteString(line + "\r\n")
			}
		}
		b.WriteString("\r\n")
	}
	b.WriteString("-- \r\n")
	if page == "" {
		b.WriteString("tidings notify list shows the notifications of your node.\r\n")
	} else {
		b.WriteString("Notifications of your node: " + page + "\r\n")
	}
	var h bytes.Buffer
	if err := mailPage.Execute(&h, data); err != nil {
		return "", "", err
	}
	return b.String(), h.String(), nil
}
