// The application as Go's ServeMux reads paths.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

func served(handler string) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		response.Header().Set("X-Served", handler)
		response.Header().Set("X-Method", request.Method)
		response.Header().Set("X-Path", url.PathEscape(request.URL.Path))
	}
}

func main() {
	mux := http.NewServeMux()
	for _, mount := range os.Args[2:] {
		mount = strings.TrimSuffix(mount, "/")
		mux.Handle(mount+"/users", served("users"))
		mux.Handle(mount+"/admin/users", served("admin"))
		mux.Handle(mount+"/static/", served("static"))
	}
	mux.Handle("/", served("other"))
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	panic(http.Serve(listener, mux))
}
