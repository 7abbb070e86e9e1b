"""MCP server of the official SDK with the tools, prompts and resources that the conformance suite of MCP calls: argument PORT."""

import asyncio
import json
import sys
import warnings
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.utilities.types import Audio, Image
from mcp_types import Completion, EmbeddedResource, ImageContent, SamplingMessage, TextContent, TextResourceContents
from pydantic import BaseModel, Field

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
SILENCE = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x44\xac\0\0\x88\x58\x01\0\x02\0\x10\0data\0\0\0\0"
PAUSE = 0.05  # seconds between two notifications; the suite demands some


class User(BaseModel):
    username: Annotated[str, Field(description="User's response")]
    email: Annotated[str, Field(description="User's email address")]


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


def embedded(uri: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type="text/plain", text=text))


def add_tools(server: MCPServer) -> None:
    @server.tool(description="test_simple_text")
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool(description="test_image_content")
    def test_image_content() -> Image:
        return Image(data=PIXEL, format="png")

    @server.tool(description="test_audio_content")
    def test_audio_content() -> Audio:
        return Audio(data=SILENCE, format="wav")

    @server.tool(description="test_embedded_resource", structured_output=False)
    def test_embedded_resource() -> EmbeddedResource:
        return embedded("test://embedded-resource", "This is an embedded resource content.")

    @server.tool(description="test_multiple_content_types", structured_output=False)
    def test_multiple_content_types() -> list[Any]:
        image = ImageContent(type="image", data=Image(data=PIXEL, format="png").to_image_content().data, mime_type="image/png")
        return [TextContent(type="text", text="Multiple content types test:"), image, embedded("test://mixed-content-resource", "{}")]

    @server.tool(description="test_error_handling")
    def test_error_handling() -> str:
        raise ValueError("This tool intentionally returns an error for testing")


def add_interactive_tools(server: MCPServer) -> None:
    @server.tool(description="test_tool_with_logging")
    async def test_tool_with_logging(context: Context) -> str:
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.info(text)
            await asyncio.sleep(PAUSE)
        return "done"

    @server.tool(description="test_tool_with_progress")
    async def test_tool_with_progress(context: Context) -> str:
        for progress in (0, 50, 100):
            await context.report_progress(progress, 100)
            await asyncio.sleep(PAUSE)
        return "done"

    @server.tool(description="test_sampling")
    async def test_sampling(prompt: str, context: Context) -> str:
        message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
        answer = await context.session.create_message([message], max_tokens=100, related_request_id=context.request_id)
        return f"LLM response: {answer.content}"

    @server.tool(description="test_elicitation")
    async def test_elicitation(message: str, context: Context) -> str:
        return f"User response: {await context.elicit(message, User)}"

    @server.tool(description="test_elicitation_sep1034_defaults")
    async def test_elicitation_sep1034_defaults(context: Context) -> str:
        return f"Elicitation completed: {await context.elicit('Defaults', Defaults)}"


def add_resources_and_prompts(server: MCPServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return PIXEL

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.prompt(description="test_simple_prompt")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="test_prompt_with_arguments")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="test_prompt_with_embedded_resource")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
        return [UserMessage(embedded(resourceUri, "Embedded resource content for testing.")), UserMessage("Please process it.")]

    @server.prompt(description="test_prompt_with_image")
    def test_prompt_with_image() -> list[Any]:
        return [UserMessage(Image(data=PIXEL, format="png").to_image_content()), UserMessage("Please analyze the image above.")]

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=["paris", "park", "party"])


def build() -> Any:
    server = MCPServer("Conformance")
    add_tools(server)
    add_interactive_tools(server)
    add_resources_and_prompts(server)
    return server.streamable_http_app()  # it checks the Host: gate must send its own


if __name__ == "__main__":
    import uvicorn

    warnings.simplefilter("ignore")  # sampling and logging are deprecated by the newest revision
    uvicorn.run(build(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
