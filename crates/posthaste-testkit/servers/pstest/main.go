// A small Pub/Sub server for tests: the in-memory fake of Google's Go library on a port of our choice.
//
// It publishes and refuses like the service, but does not keep the order of keys. The fake speaks gRPC only, while client
// libraries create topics over HTTP; so topics are made by a GET of /topics?name=...&subscription=... on a second port.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"cloud.google.com/go/pubsub/pstest"
	"google.golang.org/genproto/googleapis/pubsub/v1"
	"google.golang.org/grpc"
)

// As much as Pub/Sub takes in one request, and some room.
const largestRequest = 16 << 20

func main() {
	port := flag.Int("port", 0, "where clients connect to")
	admin := flag.Int("admin", 0, "where topics are made")
	flag.Parse()

	fake := pstest.NewServer()
	defer fake.Close()
	go serveTopics(fake, *admin)

	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(largestRequest))
	pubsub.RegisterPublisherServer(server, &fake.GServer)
	pubsub.RegisterSubscriberServer(server, &fake.GServer)
	log.Fatal(server.Serve(listener))
}

func serveTopics(fake *pstest.Server, port int) {
	http.HandleFunc("/topics", func(answer http.ResponseWriter, request *http.Request) {
		name, subscription := request.FormValue("name"), request.FormValue("subscription")
		if err := makeTopic(fake, name, subscription); err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
		}
	})
	log.Fatal(http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", port), nil))
}

func makeTopic(fake *pstest.Server, name, subscription string) error {
	ctx := context.Background()
	if _, err := fake.GServer.CreateTopic(ctx, &pubsub.Topic{Name: name}); err != nil {
		return err
	}
	_, err := fake.GServer.CreateSubscription(ctx, &pubsub.Subscription{
		Name: subscription, Topic: name, AckDeadlineSeconds: 60, EnableMessageOrdering: true,
	})
	return err
}
