package proxy

import (
	"context"
	"errors"
	"net/http"
)

// Resolve returns the address that a person means who writes to the node by a messenger. self is a URL of this server. A
// private feed is refused: who may read it is for the node's user to say.
func (s *Server) Resolve(ctx context.Context, self, text string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, self, nil)
	if err != nil {
		return "", err
	}
	address := text
	if !s.isPrivateAddress(text) {
		if address, err = s.resolveAddress(r, text); err != nil {
			return "", err
		}
	}
	if s.isPrivateAddress(address) {
		return "", refuse(http.StatusForbidden, "the address is that of a private feed, or contains a password: only the node's user can follow it")
	}
	return address, nil
}

// Choices returns what can be subscribed to in place of an address that [Server.Choose] has refused with err.
func Choices(err error) []Choice {
	if c, ok := errors.AsType[*choiceError](err); ok {
		return c.choices
	}
	return nil
}
