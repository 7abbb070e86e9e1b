import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;

/** The application as a servlet container reads paths: parameters are cut from the raw path, then it is decoded. As generous as it can be set up. */
public class Reader {
    public static void main(String[] arguments) throws Exception {
        var tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[1]);
        var connector = new Connector();
        connector.setPort(Integer.parseInt(arguments[0]));
        connector.setProperty("address", "127.0.0.1");
        connector.setAllowTrace(false);
        connector.setEncodedSolidusHandling("decode");
        connector.setProperty("allowBackslash", "true");
        tomcat.setConnector(connector);
        var context = tomcat.addContext("", new File(arguments[1]).getAbsolutePath());
        for (var handler : new String[] {"users", "admin", "static", "other"}) {
            Tomcat.addServlet(context, handler, new Handler(handler));
        }
        for (var index = 2; index < arguments.length; index++) {
            var mount = arguments[index].equals("/") ? "" : arguments[index];
            context.addServletMappingDecoded(mount + "/users", "users");
            context.addServletMappingDecoded(mount + "/admin/users", "admin");
            context.addServletMappingDecoded(mount + "/static/*", "static");
        }
        context.addServletMappingDecoded("/", "other");
        tomcat.start();
        System.out.println("ready");
        tomcat.getServer().await();
    }

    private static class Handler extends HttpServlet {
        private final String served;

        Handler(String served) {
            this.served = served;
        }

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) {
            var path = request.getServletPath() + (request.getPathInfo() == null ? "" : request.getPathInfo());
            response.setHeader("X-Served", served);
            response.setHeader("X-Method", request.getMethod());
            response.setHeader("X-Path", URLEncoder.encode(path, StandardCharsets.UTF_8).replace("+", "%20"));
        }
    }
}
