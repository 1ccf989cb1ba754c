module trafficdist.dev/flannel-cni

go 1.26.0

require github.com/containernetworking/plugins v0.9.1

require github.com/containernetworking/cni v0.8.1 // indirect

tool github.com/containernetworking/plugins/plugins/meta/flannel
