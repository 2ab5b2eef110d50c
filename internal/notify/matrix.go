package notify

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// matrix returns a target that posts to rooms of Matrix: matrix://:TOKEN@HOST/?rooms=!ID,… as the library of services writes
// it. The library is not used, because it would dial any host by itself. The server knows a message that comes again by its id.
func (s *Sender) matrix(u *url.URL) (*Target, error) {
	token, _ := u.User.Password()
	rooms, scheme := strings.Split(u.Query().Get("rooms"), ","), "https"
	if strings.EqualFold(u.Query().Get("disableTLS"), "yes") {
		scheme = "http"
	}
	switch {
	case u.Hostname() == "" || token == "" || u.User.Username() != "":
		return nil, errors.New("the address of a Matrix target is matrix://:TOKEN@HOST/?rooms=!ROOM:SERVER, with an access token of the account that writes")
	case rooms[0] == "":
		return nil, errors.New("the address of the Matrix target names no room: add ?rooms=!ROOM:SERVER, as the settings of the room show it")
	}
	if scheme == "http" && !s.config.AllowPrivate {
		return nil, errPlain
	}
	for _, room := range rooms {
		if !strings.HasPrefix(room, "!") {
			return nil, errors.New("the rooms of a Matrix target are named by their ids, which begin with !, as their settings show them")
		}
	}
	send := func(ctx context.Context, messages []Message) error {
		body, err := json.Marshal(map[string]string{"msgtype": "m.text", "body": brief(messages)})
		if err != nil {
			return &Failure{Text: err.Error()}
		}
		for _, room := range rooms {
			path := "/_matrix/client/v3/rooms/" + url.PathEscape(room) + "/send/m.room.message/" + url.PathEscape(messages[0].ID+"-"+messages[len(messages)-1].ID)
			to, err := url.Parse(scheme + "://" + u.Host + path)
			if err != nil {
				return failureOf(err)
			}
			r := newRequest(http.MethodPut, to, body)
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			if err := s.exchange(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
	return &Target{Kind: "matrix", Shown: "matrix://" + hostOf(u) + "/…", Batch: serviceBatch, Pause: servicePause, Send: send}, nil
}
