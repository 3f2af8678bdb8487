// A small Pub/Sub server for tests: the in-memory fake of Google's Go library on a port of our choice.
//
// It accepts and refuses like the service, but hands messages out slowly and in no order. So it keeps what was published,
// in the order of publishing, and a second port tells: GET /messages?topic=...&from=0. There topics are made, too, by a GET of
// /topics?name=..., because the fake speaks gRPC only while client libraries create topics over HTTP.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"

	"cloud.google.com/go/pubsub/pstest"
	"google.golang.org/genproto/googleapis/pubsub/v1"
	"google.golang.org/grpc"
)

// As much as Pub/Sub takes in one request, and some room.
const largestRequest = 16 << 20

// keeper is the fake, with a memory.
type keeper struct {
	*pstest.GServer
	mutex sync.Mutex
	kept  map[string][]message
}

type message struct {
	ID         string            `json:"id"`
	Key        string            `json:"key"`
	Data       []byte            `json:"data"`
	Attributes map[string]string `json:"attributes"`
}

// Publish keeps what the fake has accepted. Requests of one key follow each other, so their order is kept.
func (k *keeper) Publish(ctx context.Context, request *pubsub.PublishRequest) (*pubsub.PublishResponse, error) {
	answer, err := k.GServer.Publish(ctx, request)
	if err != nil {
		return nil, err
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, m := range request.Messages {
		k.kept[request.Topic] = append(k.kept[request.Topic], message{m.MessageId, m.OrderingKey, m.Data, m.Attributes})
	}
	return answer, nil
}

func (k *keeper) since(topic string, from int) []message {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	kept := k.kept[topic]
	if from > len(kept) {
		from = len(kept)
	}
	return append([]message{}, kept[from:]...)
}

func main() {
	port := flag.Int("port", 0, "where clients connect to")
	admin := flag.Int("admin", 0, "where topics are made and messages are read")
	flag.Parse()

	fake := pstest.NewServer()
	defer fake.Close()
	keeper := &keeper{GServer: &fake.GServer, kept: map[string][]message{}}
	go serveTests(keeper, *admin)

	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(largestRequest))
	pubsub.RegisterPublisherServer(server, keeper)
	log.Fatal(server.Serve(listener))
}

func serveTests(keeper *keeper, port int) {
	http.HandleFunc("/topics", func(answer http.ResponseWriter, request *http.Request) {
		topic := &pubsub.Topic{Name: request.FormValue("name")}
		if _, err := keeper.CreateTopic(context.Background(), topic); err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
		}
	})
	http.HandleFunc("/messages", func(answer http.ResponseWriter, request *http.Request) {
		from, err := strconv.Atoi(request.FormValue("from"))
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(answer).Encode(keeper.since(request.FormValue("topic"), from))
	})
	log.Fatal(http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", port), nil))
}
