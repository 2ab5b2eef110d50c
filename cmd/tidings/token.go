package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidings/proxy"
)

// A tokenCommand is "tidings token".
type tokenCommand struct {
	Create tokenCreateCommand `cmd:"" help:"Create a token, and print it. It is not shown again."`
	List   tokenListCommand   `cmd:"" help:"List tokens and how many searches they have."`
	Change tokenChangeCommand `cmd:"" help:"Change how many searches a token may have, or when it expires."`
	Revoke tokenRevokeCommand `cmd:"" help:"Revoke tokens, and end their searches."`
}

// A tokenCreateCommand is "tidings token create".
type tokenCreateCommand struct {
	client   `embed:""`
	Name     string   `placeholder:"TEXT" help:"Name of the person or the program that gets it, for your own list."`
	Searches int      `placeholder:"N" help:"Most searches that it may have (100)."`
	Expires  lifetime `placeholder:"TIME" help:"Time after which it and its searches end, such as 90d or 12h. Default: never."`
	JSON     bool     `name:"json" help:"Print one JSON object."`
}

// A lifetime is a duration, which may be given in days.
type lifetime time.Duration

// UnmarshalText is called by kong.
func (l *lifetime) UnmarshalText(text []byte) error {
	days, isDays := strings.CutSuffix(string(text), "d")
	n, err := strconv.Atoi(days)
	d := time.Duration(n) * 24 * time.Hour
	if !isDays {
		d, err = time.ParseDuration(string(text))
	}
	if err != nil || d <= 0 || n > 100*365 {
		return fmt.Errorf("%q is no time; give days or hours, such as 90d or 12h", text)
	}
	*l = lifetime(d)
	return nil
}

// from returns the end of a lifetime that begins now; nil if none was given.
func (l lifetime) from(now time.Time) *time.Time {
	if l == 0 {
		return nil
	}
	return new(now.Add(time.Duration(l)).Truncate(time.Second))
}

// Run creates a token. Standard output gets its text alone.
func (c *tokenCreateCommand) Run(ctx context.Context, s streams) error {
	if c.Searches < 0 {
		return usagef("--searches %d: give a positive number", c.Searches)
	}
	q := proxy.SearchToken{Name: c.Name, MaxSearches: c.Searches, Expires: c.Expires.from(time.Now())}
	raw, err := call[json.RawMessage](ctx, c.client, "tokens", q)
	if err != nil || c.JSON {
		return printAnswer(s, raw, err)
	}
	answer, err := decode[proxy.TokensResponse](c.client, raw)
	if err != nil {
		return err
	}
	for _, t := range answer.Tokens {
		if _, err := fmt.Fprintln(s.out, t.Token); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.notes(), "This is the only time that the token is shown. Its id is %s; it may have %s. The page for it is /s/ of the address at which others reach this node.\n",
			t.ID, proxy.Plural(t.MaxSearches, "search", "searches")); err != nil {
			return err
		}
	}
	return nil
}

// A tokenListCommand is "tidings token list".
type tokenListCommand struct {
	client `embed:""`
	JSON   bool `name:"json" help:"Print one JSON object."`
}

// Run prints the tokens.
func (c *tokenListCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := getAnswer[proxy.TokensResponse](ctx, c.client, "tokens")
	switch {
	case err != nil || c.JSON:
		return printAnswer(s, raw, err)
	case len(answer.Tokens) == 0:
		_, err = fmt.Fprintln(s.notes(), "No tokens yet: tidings token create --name NAME")
		return err
	}
	now := time.Now()
	table := table{terminal: terminalOf(s.out), columns: []column{{head: "ID"}, {head: "NAME", elastic: 1}, {head: "SEARCHES", right: true}, {head: "MADE"}, {head: "EXPIRES"}}}
	for _, t := range answer.Tokens {
		expires := "never"
		if t.Expires != nil {
			expires = until(t.Expires, now)
		}
		table.row(cell{t.ID, bold}, cell{text: oneLine(t.Name)}, cell{text: fmt.Sprintf("%d of %d", t.Searches, t.MaxSearches)}, cell{text: ago(&t.Made, now)}, cell{text: expires})
	}
	_, err = fmt.Fprint(s.out, table.String())
	return err
}

// A newExpiry is a lifetime, or "never".
type newExpiry struct {
	lifetime
	never bool
}

// UnmarshalText is called by kong.
func (e *newExpiry) UnmarshalText(text []byte) error {
	if e.never = string(text) == "never"; e.never {
		return nil
	}
	return e.lifetime.UnmarshalText(text)
}

// A tokenChangeCommand is "tidings token change".
type tokenChangeCommand struct {
	client   `embed:""`
	Searches *int      `placeholder:"N" help:"Most searches that it may have from now on. If it has more, it keeps them."`
	Expires  newExpiry `placeholder:"TIME" help:"Time from now after which it and its searches end, such as 90d or 12h, or never."`
	Tokens   []string  `arg:"" name:"token" help:"Ids or names of tokens, as \"tidings token list\" shows them."`
}

// Run changes tokens.
func (c *tokenChangeCommand) Run(ctx context.Context, s streams) error {
	switch {
	case c.Searches != nil && *c.Searches < 1:
		return usagef("--searches %d: give a positive number, or revoke the token", *c.Searches)
	case c.Searches == nil && c.Expires == (newExpiry{}):
		return usagef("give --searches, or --expires, or both")
	}
	now := time.Now()
	return forEachAddress("change", c.Tokens, oneLine, func(name string) error {
		answer, err := call[proxy.TokensResponse](ctx, c.client, "tokens/change", proxy.TokenLimits{ID: name, MaxSearches: c.Searches, Expires: c.Expires.from(now), NeverExpires: c.Expires.never})
		if err != nil {
			return err
		}
		for _, t := range answer.Tokens {
			expires := "does not expire"
			if t.Expires != nil {
				expires = "expires " + until(t.Expires, now)
			}
			_, err = fmt.Fprintf(s.out, "The token %s has %d of %s, and %s.\n", cmp.Or(oneLine(t.Name), t.ID), t.Searches, proxy.Plural(t.MaxSearches, "search", "searches"), expires)
		}
		return err
	})
}

// A tokenRevokeCommand is "tidings token revoke".
type tokenRevokeCommand struct {
	client `embed:""`
	Tokens []string `arg:"" name:"token" help:"Ids or names of tokens, as \"tidings token list\" shows them."`
}

// Run revokes tokens.
func (c *tokenRevokeCommand) Run(ctx context.Context, s streams) error {
	return forEachAddress("revoke", c.Tokens, oneLine, func(name string) error {
		answer, err := call[proxy.TokensResponse](ctx, c.client, "tokens/revoke", proxy.SearchToken{ID: name})
		if err != nil {
			return err
		}
		for _, t := range answer.Tokens {
			_, err = fmt.Fprintf(s.out, "The token %s is revoked, and %s ended.\n", cmp.Or(oneLine(t.Name), t.ID), proxy.Plural(t.Searches, "search has", "searches have"))
		}
		return err
	})
}
