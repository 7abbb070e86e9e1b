// The application as Express reads paths.  Its routes tell capitals and a slash at the end apart, which they do not by default.
import express from "express";

const [port, ...mounts] = process.argv.slice(2);
const served = (handler) => (request, response) => {
  const path = decodeURIComponent(new URL(request.originalUrl, "http://x").pathname);
  response.set({ "X-Served": handler, "X-Method": request.method, "X-Path": encodeURIComponent(path) }).end();
};

const application = express();
application.enable("case sensitive routing");
application.enable("strict routing");
for (const mount of mounts) {
  const router = express.Router({ caseSensitive: true, strict: true });
  router.all("/users", served("users"));
  router.all("/admin/users", served("admin"));
  router.all("/static/*rest", served("static"));
  application.use(mount, router);
}
application.use(served("other"));
application.listen(Number(port), "127.0.0.1", () => console.log("ready"));
