// Enqueues from Go with database/sql: in the transaction that keeps the order.
package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/lib/pq"
)

// snippet: order
// Event is the answer to an enqueue: its id, and whether it had been enqueued before.
type Event struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

// placeOrder keeps the order and enqueues its event, both or neither.
func placeOrder(db *sql.DB, order string, total int) (Event, error) {
	tx, err := db.Begin()
	if err != nil {
		return Event{}, err
	}
	defer tx.Rollback()
	if _, err := tx.Exec("insert into orders (id, total) values ($1, $2)", order, total); err != nil {
		return Event{}, err
	}
	event, err := enqueuePlaced(tx, order, total)
	if err != nil {
		return Event{}, err
	}
	return event, tx.Commit()
}

func enqueuePlaced(tx *sql.Tx, order string, total int) (event Event, err error) {
	payload, err := json.Marshal(map[string]any{"order": order, "total": total, "text": "grüße"})
	if err != nil {
		return event, err
	}
	err = tx.QueryRow(
		`select id, duplicate from posthaste.enqueue(topic => 'orders', event_type => 'order.placed',
		 key => $1, dedupe_key => $2, payload => $3)`,
		order, "placed/"+order, string(payload),
	).Scan(&event.ID, &event.Duplicate)
	return event, err
}

// end snippet

// snippet: bytes
// enqueueBytes enqueues bytes of any kind, with a media type and headers.
func enqueueBytes(db *sql.DB, body []byte) (event Event, err error) {
	err = db.QueryRow(
		`select id, duplicate from posthaste.enqueue(topic => 'files', payload_bytes => $1,
		 content_type => 'application/x-two', headers => $2)`,
		body, `{"Trace":"t-1"}`,
	).Scan(&event.ID, &event.Duplicate)
	return event, err
}

// end snippet

func say(name string, event Event) {
	line, _ := json.Marshal(map[string]any{"case": name, "id": event.ID, "duplicate": event.Duplicate})
	fmt.Println(string(line))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	db := must(sql.Open("postgres", os.Args[1]+"?sslmode=disable"))
	say("commit", must(placeOrder(db, "o-1", 12)))
	tx := must(db.Begin())
	say("again", must(enqueuePlaced(tx, "o-1", 12)))
	must(0, tx.Commit())
	tx = must(db.Begin())
	must(tx.Exec("insert into orders (id, total) values ('o-2', 30)"))
	must(enqueuePlaced(tx, "o-2", 30))
	must(0, tx.Rollback())
	say("bytes", must(enqueueBytes(db, []byte{0x00, 0xff})))
	// snippet: refused
	_, err := db.Exec("select posthaste.enqueue(topic => '', payload => '{}')")
	var refused *pq.Error
	if errors.As(err, &refused) {
		line, _ := json.Marshal(map[string]any{
			"case": "refused", "sqlstate": refused.Code, "message": refused.Message,
		})
		fmt.Println(string(line))
	}
	// end snippet
}
